//go:build e2e

package bench

import (
	"math/rand/v2"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/pkg/driver"
)

// changeSeconds is the goal for the time in which all nodes write.
const changeSeconds = 30

// changeFigures has the writes that one changed NAD causes.
type changeFigures struct {
	// Nodes is the number of nodes with a driver that writes.
	Nodes int
	// Over is the time over which the drivers spread their writes, in seconds.
	Over float64
	// Writes and Refused are the API server's counts, from the change until the end of the
	// measurement on a cluster of that size. Refused are writes that it rejected as too
	// many at a time; the drivers retry them.
	Writes, Refused int
	// Sent is the time in seconds from the first driver's write to the last one's, Peak the
	// most writes in one second, and Stored the time until the last is answered.
	Sent, Stored float64
	Peak         int
	// P50 and P99 are percentiles of the time until a driver's write was stored, in
	// milliseconds. Within is the bound of the API server's own histogram that 99 of 100
	// writes did not exceed.
	P50, P99, Within float64
}

// PerNode returns the writes of one change per node.
func (f changeFigures) PerNode() float64 { return float64(f.Writes) / float64(f.Nodes) }

// change changes one NAD. Each driver writes at a random moment, within the time that the
// real driver has for a cluster of that size.
func (s *scale) change(b *testing.B) changeFigures {
	s.before, s.after = s.after, s.before // the next size begins with this state
	over := driver.SpreadOver(int64(s.fleet.nodes))
	f := changeFigures{Nodes: len(s.fleet.drivers), Over: over.Seconds()}
	s.fleet.log.reset()
	updated := map[*simulated]int64{}
	for _, d := range s.fleet.drivers {
		updated[d] = d.controller.GetStats().NumUpdates
	}
	for _, d := range s.fleet.drivers {
		time.AfterFunc(rand.N(over), func() { d.controller.Update(s.before.on(d.node)) })
	}
	s.fleet.await(b, func(d *simulated) bool { return d.controller.GetStats().NumUpdates > updated[d] })
	s.fleet.report(b)
	all := s.fleet.log.all()
	f.Sent = all[len(all)-1].sent.Sub(all[0].sent).Seconds()
	f.Stored = lastAnswer(all).Sub(all[0].sent).Seconds()
	took := answered(all)
	f.Peak, f.P50, f.P99 = peak(all), took.Median(), took.Percentile(99)
	return f
}

// sliceWrites has the API server's own figures of the writes of slices.
type sliceWrites struct {
	done, refused float64
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
