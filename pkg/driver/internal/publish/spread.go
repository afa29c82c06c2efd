package publish

import (
	"context"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/metadata"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

const (
	// perNode is the share of each node in the time over which all nodes write after a
	// change that concerns all of them: some 30 slices a second in the cluster, each of
	// which takes an API server that much time of a core.
	perNode = 30 * time.Millisecond
	// maxSpread limits that time, and so the time until the last node offers a new
	// network.
	maxSpread = 30 * time.Second
	// recount is the pause between two counts of the nodes.
	recount = time.Hour
)

// cause is why there may be something to publish.
type cause uint32

const (
	causeHere cause = 1 << iota // something on this node has changed
	causeNADs                   // something has changed that all nodes see at once
)

// spread keeps the nodes of a large cluster from writing all at once when a NAD changes.
// A change on one node is written at once, together with the changes that wait.
type spread struct {
	nodes atomic.Int64
	draw  func(time.Duration) time.Duration
	until time.Time // used by the publishing goroutine only; zero while nothing waits
}

// over returns the time over which the nodes write.
func (s *spread) over() time.Duration { return SpreadOver(s.nodes.Load()) }

// SpreadOver returns the time over which that many nodes write a change that concerns all
// of them. Each node writes at a moment of its own in that time.
func SpreadOver(nodes int64) time.Duration {
	return min(time.Duration(nodes)*perNode, maxSpread)
}

// delays reports whether publishing waits for this node's moment.
func (s *spread) delays(why cause) bool {
	if why&causeHere != 0 {
		return false
	}
	if over := s.over(); s.until.IsZero() && why&causeNADs != 0 && over > 0 {
		s.until = time.Now().Add(s.draw(over))
	}
	return time.Now().Before(s.until)
}

// end ends the wait.
func (s *spread) end() { s.until = time.Time{} }

// moment returns a channel that delivers when the wait is over, or nil while nothing waits.
func (s *spread) moment() <-chan time.Time {
	if s.until.IsZero() {
		return nil
	}
	return time.After(time.Until(s.until))
}

// CountNodes counts the cluster's nodes every hour until ctx ends. While the node count is
// unknown, publishing is not delayed.
func (p *Publisher) CountNodes(ctx context.Context, client metadata.Interface) error {
	nodes := client.Resource(schema.GroupVersionResource{Version: "v1", Resource: "nodes"})
	for {
		// The server reports how many remain.
		list, err := nodes.List(ctx, metav1.ListOptions{Limit: 1})
		switch {
		case ctx.Err() != nil:
			return nil //nolint:nilerr // the end is no failure
		case err != nil:
			klog.FromContext(ctx).Error(err, "Counting the nodes failed; publishing changes of NADs by the latest count", "nodes", p.spread.nodes.Load())
		default:
			n := int64(len(list.Items))
			if list.RemainingItemCount != nil {
				n += *list.RemainingItemCount
			}
			p.spread.nodes.Store(n)
		}
		if !background.Sleep(ctx, recount) {
			return nil
		}
	}
}
