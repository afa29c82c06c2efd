//go:build e2e

package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	scaleNamespace = "scale"
	// scaleNADs are on every node.
	scaleNADs = 100
	// scalePods is how many claims are allocated.
	scalePods = 1_000
)

// scaleFigures are a cluster of that many simulated nodes.
type scaleFigures struct {
	Nodes, NADs int
	Slices      sliceFigures
	Change      changeFigures
	// Plain are pods without claims, Claims as many that have one each.
	Plain, Claims schedulingFigures
	// APIServer and Scheduler are what is resident of them, in MiB, when all of
	// that has happened.
	APIServer, Scheduler float64
}

// Scheduling is both, for the document.
func (f scaleFigures) Scheduling() []schedulingFigures { return []schedulingFigures{f.Plain, f.Claims} }

// SchedulingTime is for the document.
func (r *report) SchedulingTime() string { return schedulingTime.String() }

// scale is a real control plane, a real node whose driver says what nodes
// publish, and the fleet of simulated ones.
type scale struct {
	*lab.Lab
	before, after offer
	fleet         *fleet
}

// BenchmarkScale has a real control plane carry many nodes that there are only
// as objects, and drivers of which there is only what publishes. The cluster
// grows from one size to the next.
func BenchmarkScale(b *testing.B) {
	figures.begin(b, "scale")
	noLab(b)
	s := newScale(b)
	for _, nodes := range scaleSizes(b) {
		figures.Scale = append(figures.Scale, s.measure(b, nodes))
	}
	b.ReportMetric(0, "ns/op")
	for _, f := range figures.Scale {
		b.ReportMetric(f.Change.PerNode(), fmt.Sprintf("writes/node-%d", f.Nodes))
		b.ReportMetric(f.Change.Stored, fmt.Sprintf("s-change-%d", f.Nodes))
		b.ReportMetric(f.Claims.Rate(), fmt.Sprintf("claims/s-%d", f.Nodes))
	}
}

// scaleSizes are the numbers of nodes; BENCH_SCALE has others, "200,400".
func scaleSizes(b *testing.B) []int {
	text := os.Getenv("BENCH_SCALE")
	if text == "" {
		return []int{1_000, 5_000}
	}
	var out []int
	for field := range strings.SplitSeq(text, ",") {
		n, err := strconv.Atoi(field)
		must(b, err)
		out = append(out, n)
	}
	return out
}

// newScale starts the cluster. Nobody sends the heartbeats of simulated nodes,
// so that they count as alive for an hour without. The clients of the API server
// are not held back: what counts is how much work there is.
func newScale(b *testing.B) *scale {
	l, err := lab.Start(b.Context(), cluster.Options{
		GOGC: defaultGOGC, Dir: filepath.Join(runDir, "scale"), Nodes: 1, OnBoot: makeMaster,
		ControllerManagerArgs: []string{"--node-monitor-grace-period=1h", "--node-monitor-period=5s", "--kube-api-qps=1000", "--kube-api-burst=1000"},
		SchedulerArgs:         []string{"--kube-api-qps=1000", "--kube-api-burst=1000"},
	}, os.Stderr)
	must(b, err)
	s := &scale{Lab: l}
	b.Cleanup(func() {
		if s.fleet != nil {
			s.fleet.stop()
		}
		if err := l.Cluster.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	must(b, s.capture(b.Context()))
	must(b, s.fence(b.Context()))
	must(b, s.claims(b.Context()))
	s.fleet = newFleet(b, l)
	return s
}

// measure has the cluster grow to that size and looks at it.
func (s *scale) measure(b *testing.B, nodes int) scaleFigures {
	f := scaleFigures{Nodes: nodes, NADs: scaleNADs}
	f.Slices = s.grow(b, nodes)
	written := s.sliceWrites(b)
	f.Change = s.change(b)
	f.Change.Within = s.sliceWrites(b).within.since(written.within).bound(0.99) * 1000
	f.Plain = s.schedule(b, "plain", plainPod)
	f.Claims = s.schedule(b, "claim", claimPod)
	// Not before: the library looks again half a minute and a minute after it has
	// written, and must find nothing to do.
	now := s.sliceWrites(b)
	f.Change.Writes, f.Change.Refused = int(now.done-written.done), int(now.refused-written.refused)
	f.APIServer = findProcess(b, s.Cluster.ControlPlane(), cluster.APIServer).status(b, "VmRSS")
	f.Scheduler = findProcess(b, s.Cluster.ControlPlane(), cluster.Scheduler).status(b, "VmRSS")
	b.Logf("%+v", f)
	return f
}
