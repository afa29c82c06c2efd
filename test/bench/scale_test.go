package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	scaleNamespace = "scale"
	// scaleRounds is how often each offer is published and pods are scheduled with it, unless
	// BENCH_ROUNDS is set.
	scaleRounds = 3
	// scalePods is the number of pods that are created at once.
	scalePods = 200
	// usualNADs is the number of NADs for which most goals are set.
	usualNADs = 100
)

var (
	// sharedNADs are the numbers of NADs that nodes of one profile share.
	sharedNADs = []int{1, usualNADs, 200}
	// manyProfiles are the numbers of profiles that are compared with one, in the smallest cluster.
	manyProfiles = []int{5, 50}
)

// scaleFigures has the figures of a cluster of a number of simulated nodes.
type scaleFigures struct {
	Nodes int
	// Offers has the figures of each offer, in the order of the first round.
	Offers []offerFigures
	// Change has the figures of a change of slices of each node, and SharedChange of those of a profile.
	Change, SharedChange changeFigures
	// Etcd is the size of etcd's file after the first round, in MiB.
	Etcd float64
}

// offerFigures has the figures of a cluster whose nodes have one kind of slices.
type offerFigures struct {
	Title string
	// NADs is the number of NADs on every node that the slices stand for, and Profiles how many profiles the
	// nodes have whose slices they share; 0 if each has its own.
	NADs, Profiles int
	Slices         sliceFigures
	// Pods has the figures of scheduling, by the number of networks or devices of a pod.
	Pods []podRates
	// Memory was measured in the first round, in the offers that are compared; nil in others.
	Memory *scaleMemory
}

// scale has a real control plane, the slices that the real driver and controller made for a real node, and the
// fleet of simulated nodes that have the same.
type scale struct {
	*lab.Lab
	offers []*offer
	// own and shared are the offers of usualNADs with slices of each node and of one profile, and without has
	// each of them after one NAD was deleted.
	own, shared *offer
	without     map[*offer]*offer
	real        realWrites
	fleet       *fleet
	rounds      int

	apiServer, scheduler component
}

// BenchmarkScale loads a real control plane with many nodes that exist only as objects. The
// cluster grows from one size to the next.
func BenchmarkScale(b *testing.B) {
	figures.begin(b, "scale")
	noLab(b)
	s := newScale(b)
	m, err := thisMachine(b.Context(), s.Lab)
	must(b, err)
	source, err := commit(b.Context())
	must(b, err)
	figures.Scale, figures.RealWrites = nil, &s.real
	figures.ScaleSource = fmt.Sprintf("on %s at commit %s with Kubernetes %s, the whole cluster on %d cores", m.Date, source, m.Kubernetes, m.CPUs)
	for _, nodes := range scaleSizes(b) {
		figures.Scale = append(figures.Scale, s.measure(b, nodes))
	}
	b.ReportMetric(0, "ns/op")
	for _, f := range figures.Scale {
		b.ReportMetric(f.Change.PerNode(), fmt.Sprintf("writes/node-%d", f.Nodes))
		for _, networks := range []int{1, 3} {
			b.ReportMetric(f.Share(networks), fmt.Sprintf("of-bare-%d-networks-%d", networks, f.Nodes))
		}
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

// newScale starts the cluster, and records what the real driver and controller publish.
func newScale(b *testing.B) *scale {
	s := startScale(b)
	s.capture(b)
	s.templates(b)
	must(b, s.isolate(b.Context()))
	return s
}

// startScale starts the cluster. Simulated nodes send no heartbeats, so a node counts as
// alive for an hour without one. Clients of the API server have no rate limit, because the
// benchmark measures how much work there is.
func startScale(b *testing.B) *scale {
	l, err := lab.Start(b.Context(), cluster.Options{
		GOGC: defaultGOGC, Dir: filepath.Join(runDir, "scale"), Nodes: 1, OnBoot: lab.LinkAtBoot(lan),
		ControllerManagerArgs: []string{"--node-monitor-grace-period=1h", "--node-monitor-period=5s", "--kube-api-qps=1000", "--kube-api-burst=1000"},
		SchedulerArgs:         []string{"--kube-api-qps=1000", "--kube-api-burst=1000"},
	}, os.Stderr)
	must(b, err)
	s := &scale{Lab: l, fleet: newFleet(b, l), rounds: scaleRounds}
	if text := os.Getenv("BENCH_ROUNDS"); text != "" {
		s.rounds, err = strconv.Atoi(text)
		must(b, err)
	}
	b.Cleanup(func() {
		s.fleet.stop()
		if err := l.Cluster.Stop(context.WithoutCancel(b.Context())); err != nil {
			b.Error(err)
		}
	})
	return s
}

// measure grows the cluster to a number of nodes and returns its figures. Offers take turns,
// each round begins with another one, so that slow minutes of the machine do not hit one alone.
func (s *scale) measure(b *testing.B, nodes int) scaleFigures {
	f := scaleFigures{Nodes: nodes}
	if s.fleet.size() > 0 {
		s.offers = slices.DeleteFunc(s.offers, func(o *offer) bool { return len(o.profiles) > 1 })
	}
	for _, o := range s.offers {
		f.Offers = append(f.Offers, newOfferFigures(o))
	}
	s.fleet.withdraw(b)
	must(b, s.fleet.join(nodes))
	for round := range s.rounds {
		for i := range s.offers {
			n := (round + i) % len(s.offers)
			s.round(b, s.offers[n], &f.Offers[n], round)
		}
		if round == 0 {
			f.Etcd = s.etcdSize(b)
		}
	}
	f.Change = s.change(b, s.own, &f.own().Slices)
	f.SharedChange = s.change(b, s.shared, &f.shared(usualNADs).Slices)
	return f
}

// round publishes an offer and schedules pods.
func (s *scale) round(b *testing.B, o *offer, f *offerFigures, round int) {
	s.publish(b, o, &f.Slices)
	if round == 0 && o.weighed {
		s.restart(b)
		f.Memory = &scaleMemory{s.apiServer.memory(b), s.scheduler.memory(b)}
	}
	for i, r := range o.requests {
		profile := ""
		if round == 0 && r.template != "" {
			profile = fmt.Sprintf("%d-nodes-%s-%d", s.fleet.size(), o.name, r.networks)
		}
		last := s.schedule(b, r, profile)
		f.Pods[i].Rounds = append(f.Pods[i].Rounds, last)
		s.progress("round %d of %d, %s: %d of %d pods with %d networks bound in %.1f s (%.1f a second)",
			round+1, s.rounds, o.title, last.Bound, scalePods, r.networks, last.Seconds, last.Rate())
	}
	if round == 0 && o.weighed {
		f.Memory.APIServer.Peak, f.Memory.Scheduler.Peak = s.apiServer.peak(b), s.scheduler.peak(b)
		s.progress("%s: MiB at rest / peak: API server %s, scheduler %s", o.title, f.Memory.APIServer, f.Memory.Scheduler)
	}
}

// progress prints a line at once.
func (s *scale) progress(format string, args ...any) {
	fmt.Fprintf(os.Stderr, "%s %d nodes: %s\n", time.Now().Format(time.TimeOnly), s.fleet.size(), fmt.Sprintf(format, args...))
}
