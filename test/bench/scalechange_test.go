package bench

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/driver"
)

const (
	// changeSeconds is the goal for the time in which all nodes write.
	changeSeconds = 30
	// changeKiB is the goal for the size of the slices that a node writes.
	changeKiB = 8
)

// changeFigures has the writes that one changed NAD causes.
type changeFigures struct {
	// Title is that of the offer, and Nodes the number of nodes with a driver.
	Title string
	Nodes int
	// Watches is the live heap of the API server that these drivers' watches take, in MiB.
	Watches float64
	// Over is the time over which the drivers spread their writes, in seconds.
	Over float64
	// Watched is what the API server sends to all watches of slices, in KiB.
	Watched float64
	// Writes and Refused are the API server's counts, from before the drivers start until
	// they have looked at their slices again. Refused are writes that it rejected as too many
	// at a time; the drivers retry them.
	Writes, Refused int
	// JSON, Stored and Request are the sizes of the slices that a driver, or the controller, writes: as a client
	// reads them, as etcd stores them, and in the requests; in KiB.
	JSON, Stored, Request float64
	// Sent is the time in seconds from the first write to the last one, Peak the
	// most writes in one second, and Answered the time until the last is answered.
	Sent, Answered float64
	Peak           int
	// P50 and P99 are percentiles of the time until a driver's write was stored, in
	// milliseconds. Within is the bound of the API server's own histogram that 99 of 100
	// writes did not exceed.
	P50, P99, Within float64
}

// PerNode returns the writes of one change per node, and WatchedPerNode what is sent to watches, in KiB.
func (f changeFigures) PerNode() float64        { return float64(f.Writes) / float64(f.Nodes) }
func (f changeFigures) WatchedPerNode() float64 { return f.Watched / float64(f.Nodes) }

// change deletes one NAD. Each driver writes its slices at a random moment, within the time that the real
// driver has for a cluster of that size; or the controller writes those of the profile. Before that, all drivers
// are given the slices that they have published already, as after a change that devices do not show.
func (s *scale) change(b *testing.B, o *offer, slices *sliceFigures) changeFigures {
	s.publish(b, o, slices)
	after, over := s.without[o], driver.SpreadOver(int64(s.fleet.size()))
	f := changeFigures{Title: o.title}
	written, live := s.sliceWrites(b), s.apiServer.live(b)
	must(b, s.fleet.drive(o))
	f.Nodes, f.Watches = len(s.fleet.drivers), s.apiServer.live(b)-live
	s.fleet.log.reset()
	started := s.sliceWrites(b)
	for _, d := range s.fleet.drivers {
		d.controller.Update(o.pools.on(d.node))
	}
	s.fleet.offer = nil
	of := s.fleet.drivers[0].node
	if len(o.profiles) > 0 {
		of = o.profiles[0].name
		must(b, s.fleet.rewrite(after))
	} else {
		f.Over = over.Seconds()
		for _, d := range s.fleet.drivers {
			time.AfterFunc(rand.N(over), func() { d.controller.Update(after.pools.on(d.node)) })
		}
	}
	s.fleet.await(b)
	s.fleet.report(b)
	all := s.fleet.log.all()
	f.Sent = all[len(all)-1].sent.Sub(all[0].sent).Seconds()
	f.Answered = lastAnswer(all).Sub(all[0].sent).Seconds()
	took := answered(all)
	f.Peak, f.P50, f.P99 = peak(all), took.Median(), took.Percentile(99)
	s.weighWrites(b, of, &f)
	// The library looks at its slices again that long after it has written them, and must find
	// nothing to write.
	<-time.After(resourceslice.DefaultSyncDelay + 5*time.Second)
	now := s.sliceWrites(b)
	f.Writes, f.Refused = int(now.done-written.done), int(now.refused-written.refused)
	f.Within, f.Watched = now.within.since(written.within).bound(0.99)*1000, now.watched-started.watched
	s.fleet.rest(b)
	s.progress("%s, one NAD changes: %d writes, sent in %.1f s, and %.0f KiB to the watches of %d drivers", o.title, f.Writes, f.Sent, f.Watched, f.Nodes)
	return f
}

// weighWrites sets the sizes of what was written for a node or profile.
func (s *scale) weighWrites(b *testing.B, of string, f *changeFigures) {
	for name, u := range s.fleet.log.of(of) {
		slice, err := s.fleet.kube.ResourceV1().ResourceSlices().Get(b.Context(), name, metav1.GetOptions{})
		must(b, err)
		text, stored := weigh(b, slice)
		f.JSON += text
		f.Stored += stored
		f.Request += float64(u.bytes) / 1024
	}
}

// sliceWrites has the API server's own figures of the writes of slices.
type sliceWrites struct {
	done, refused float64
	// watched is what was sent to watches, in KiB.
	watched float64
	// within counts the updates by the time until they were answered, in seconds.
	within histogram
}

// writing has the verbs of writes.
var writing = []string{"POST", "PUT", "PATCH", "DELETE"}

func (s *scale) sliceWrites(b *testing.B) sliceWrites {
	out := sliceWrites{within: histogram{}}
	for _, m := range apiMetrics(b, s.fleet.kube) {
		switch verb := m.label("verb"); {
		case m.label("resource") != "resourceslices":
		case m.name == "apiserver_watch_events_sizes_sum":
			out.watched += m.value / 1024
		case m.name == "apiserver_request_total" && slices.Contains(writing, verb) && m.label("code") == "429":
			out.refused += m.value
		case m.name == "apiserver_request_total" && slices.Contains(writing, verb):
			out.done += m.value
		case m.name == "apiserver_request_duration_seconds_bucket" && verb == "PUT":
			bound, err := strconv.ParseFloat(m.label("le"), 64)
			must(b, err)
			out.within[bound] += m.value
		}
	}
	return out
}
