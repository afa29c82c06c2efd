package bench

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/bench/stats"
	"github.com/nadra-dev/nadra/test/lab"
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

// BenchmarkGuestStarts does the same in the guest of the VM lane, whose processor is emulated, with pods that have a
// CPU, a virtual function and a GPU of one NUMA node.
func BenchmarkGuestStarts(b *testing.B) {
	figures.begin(b, "guest starts")
	noLab(b)
	cmd := exec.CommandContext(b.Context(), "go", "test", "-tags", "e2e", "-count=1", "-timeout", "60m", "-run", "^$", "-bench", "AlignedStarts", "./test/vm")
	cmd.Dir, cmd.Stderr = lab.Root(), os.Stderr
	cmd.Env = append(os.Environ(), "VM_STARTS="+strconv.Itoa(starts))
	out, err := cmd.Output()
	if err != nil {
		b.Fatalf("starting pods in the guest: %v\n%s", err, out)
	}
	for line := range bytes.Lines(out) {
		times, found := strings.CutPrefix(string(line), "vm-starts:")
		if !found {
			continue
		}
		for word := range strings.FieldsSeq(times) {
			took, err := strconv.ParseFloat(word, 64)
			must(b, err)
			figures.GuestStarts = append(figures.GuestStarts, took)
		}
	}
	if len(figures.GuestStarts) != starts {
		b.Fatalf("%d pods were measured, want %d", len(figures.GuestStarts), starts)
	}
	for _, p := range []float64{50, 90, 99} {
		b.ReportMetric(figures.GuestStarts.Percentile(p), fmt.Sprintf("ms-p%.0f", p))
	}
	b.ReportMetric(0, "ns/op")
}
