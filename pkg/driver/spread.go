package driver

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"
)

const (
	// perNode is the share of each node in the time over which all of them
	// write what concerns all: some 30 slices a second in all, of which each
	// costs an API server that much time of a core.
	perNode = 30 * time.Millisecond
	// maxSpread bounds that time. It is how long a new network may take to be
	// offered on the last node.
	maxSpread = 30 * time.Second
	// recount is how often the nodes are counted.
	recount = time.Hour
)

// cause is why there may be something to publish.
type cause uint32

const (
	causeHere cause = 1 << iota // something on this node
	causeNADs                   // something that all nodes see at once
)

// spread keeps the nodes of a large cluster from writing all at once when a NAD
// changes. What changes on one node is written at once, and with it what waits.
type spread struct {
	nodes atomic.Int64
	draw  func(time.Duration) time.Duration
	until time.Time // of the goroutine that publishes; zero while nothing waits
}

// over is how long the nodes take together.
func (s *spread) over() time.Duration { return SpreadOver(s.nodes.Load()) }

// SpreadOver is how long so many nodes take together to write what concerns all
// of them. Each writes at a moment of its own in that time.
func SpreadOver(nodes int64) time.Duration {
	return min(time.Duration(nodes)*perNode, maxSpread)
}

// holds reports whether what there is to publish waits for this node's turn.
func (s *spread) holds(why cause) bool {
	if why&causeHere != 0 {
		return false
	}
	if over := s.over(); s.until.IsZero() && why&causeNADs != 0 && over > 0 {
		s.until = time.Now().Add(s.draw(over))
	}
	return time.Now().Before(s.until)
}

// end says that nothing waits any more.
func (s *spread) end() { s.until = time.Time{} }

// turn fires when the wait is over; never while nothing waits.
func (s *spread) turn() <-chan time.Time {
	if s.until.IsZero() {
		return nil
	}
	return time.After(time.Until(s.until))
}

// countNodes counts the cluster's nodes now and then, until ctx ends. What is
// not known spreads nothing.
func (s *spread) countNodes(ctx context.Context, client metadata.Interface) error {
	for {
		// The server says how many remain.
		list, err := client.Resource(nodeResource).List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end is no failure
		case err != nil:
			klog.FromContext(ctx).Error(err, "The nodes could not be counted; changes of NADs are published as by so many", "nodes", s.nodes.Load())
		default:
			n := int64(len(list.Items))
			if list.RemainingItemCount != nil {
				n += *list.RemainingItemCount
			}
			s.nodes.Store(n)
		}
		if !sleep(ctx, recount) {
			return nil
		}
	}
}
