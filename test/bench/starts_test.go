package bench

import (
	"testing"

	"github.com/nadra-dev/nadra/test/bench/stats"
)

// starts is how many pods of a kind BenchmarkStarts starts: as many as the paper on Kubernetes network drivers
// (arXiv 2506.23628) does for its percentiles.
const starts = 100

// startFigures has the times from create to Ready of pods that start one after another.
type startFigures struct {
	Kind  string
	Ready stats.Sample
}

// BenchmarkStarts starts pods with one and with three networks of nadra's, one after another.
func BenchmarkStarts(b *testing.B) {
	figures.begin(b, "starts")
	s := newStarter(b, threeNodes(b), "starts")
	for _, kind := range podKinds {
		if kind.node != nadraNode || kind.networks == 0 {
			continue
		}
		f := startFigures{Kind: kind.title}
		for round := range podWarmUp + starts {
			if life := s.lead(b, kind, round); round >= podWarmUp {
				f.Ready.Add(life.ready.Sub(life.created))
			}
		}
		figures.Starts = append(figures.Starts, f)
		b.ReportMetric(f.Ready.Percentile(99), "ms-"+kind.name+"-p99")
	}
	b.ReportMetric(0, "ns/op")
}
