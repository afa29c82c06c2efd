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

// changeSeconds is the goal for the time in which the nodes write.
const changeSeconds = 30

// changeFigures are the writes when one NAD changes.
type changeFigures struct {
	// Nodes of the cluster have a driver that writes.
	Nodes int
	// Over is how long the drivers of the cluster are to take together, in seconds.
	Over float64
	// Writes and Refused are counted by the API server, from then on until nothing
	// more is measured on a cluster of that size. Refused ones it has turned away
	// for being too many at a time; they are tried again.
	Writes, Refused int
	// Sent are the seconds from the first driver's write to the last one's, Peak
	// the most in any one of them, and Stored those until the last is answered.
	Sent, Stored float64
	Peak         int
	// P50 and P99 are how long a driver's write took until it was stored, in
	// milliseconds. Within is the bound that 99 of 100 kept by the API server's own
	// histogram.
	P50, P99, Within float64
}

// PerNode are all writes that one change brought.
func (f changeFigures) PerNode() float64 { return float64(f.Writes) / float64(f.Nodes) }

// change has one NAD change: each driver writes at the moment that it draws, in
// the time that the real one has for a cluster of that size.
func (s *scale) change(b *testing.B) changeFigures {
	s.before, s.after = s.after, s.before // the next size begins with what is now
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

// sliceWrites are the API server's own figures of who writes slices.
type sliceWrites struct {
	done, refused float64
	// within are the updates that were answered so soon, in seconds.
	within histogram
}

// writing are the verbs that do.
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
