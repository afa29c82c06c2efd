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
	// scaleNADs is the number of NADs on every node.
	scaleNADs = 100
	// scalePods is the number of claims that are allocated.
	scalePods = 1_000
)

// scaleFigures has the figures of a cluster of a number of simulated nodes.
type scaleFigures struct {
	Nodes, NADs int
	Slices      sliceFigures
	Change      changeFigures
	// Plain has the figures of pods without claims, Claims of as many pods with one claim
	// each.
	Plain, Claims schedulingFigures
	// APIServer and Scheduler are their resident memory at the end, in MiB.
	APIServer, Scheduler float64
}

// Scheduling returns both, for the document.
func (f scaleFigures) Scheduling() []schedulingFigures { return []schedulingFigures{f.Plain, f.Claims} }

// SchedulingTime returns the limit of scheduling, for the document.
func (r *report) SchedulingTime() string { return schedulingTime.String() }

// scale has a real control plane, a real node whose driver publishes the model of all
// slices, and the fleet of simulated nodes.
type scale struct {
	*lab.Lab
	before, after offer
	fleet         *fleet
	// scheduler is profiled.
	scheduler endpoint
}

// BenchmarkScale loads a real control plane with many nodes that exist only as objects, and
// with drivers that only publish. The cluster grows from one size to the next.
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

// scaleSizes returns the numbers of nodes, which BENCH_SCALE may set, as in "200,400".
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

// newScale starts the cluster. Simulated nodes send no heartbeats, so a node counts as
// alive for an hour without one. Clients of the API server have no rate limit, because the
// benchmark measures how much work there is.
func newScale(b *testing.B) *scale {
	l, err := lab.Start(b.Context(), cluster.Options{
		GOGC: defaultGOGC, Dir: filepath.Join(runDir, "scale"), Nodes: 1, OnBoot: makeMaster,
		ControllerManagerArgs: []string{"--node-monitor-grace-period=1h", "--node-monitor-period=5s", "--kube-api-qps=1000", "--kube-api-burst=1000"},
		SchedulerArgs:         []string{"--kube-api-qps=1000", "--kube-api-burst=1000"},
	}, os.Stderr)
	must(b, err)
	s := &scale{Lab: l, scheduler: schedulerEndpoint(b, l.Cluster)}
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

// measure grows the cluster to a number of nodes and returns its figures.
func (s *scale) measure(b *testing.B, nodes int) scaleFigures {
	f := scaleFigures{Nodes: nodes, NADs: scaleNADs}
	f.Slices = s.grow(b, nodes)
	written := s.sliceWrites(b)
	f.Change = s.change(b)
	f.Change.Within = s.sliceWrites(b).within.since(written.within).bound(0.99) * 1000
	f.Plain = s.schedule(b, "plain", plainPod)
	f.Claims = s.schedule(b, "claim", claimPod)
	// Not earlier: the library checks its slices half a minute and a minute after it has
	// written them, and must find nothing to do.
	now := s.sliceWrites(b)
	f.Change.Writes, f.Change.Refused = int(now.done-written.done), int(now.refused-written.refused)
	f.APIServer = findProcess(b, s.Cluster.ControlPlane(), cluster.APIServer).status(b, "VmRSS")
	f.Scheduler = findProcess(b, s.Cluster.ControlPlane(), cluster.Scheduler).status(b, "VmRSS")
	b.Logf("%+v", f)
	return f
}
