//go:build e2e

package driver

import (
	"os"
	"testing"
	"time"

	nri "github.com/containerd/nri/pkg/api"

	"github.com/nadra-dev/nadra/test/bench/sealed"
)

// besideRounds is how often each case is measured on each side, after some
// rounds that warm up.
const (
	besideRounds = 80
	besideWarmUp = 3
)

// BenchmarkBesideMultus gives sandboxes the same networks in four ways, in turn:
// by calls of libcni alone, by nadra's hooks, by Multus as a plugin that does it
// all (thin), and by Multus' daemon (thick), whose shim the runtime calls. What
// each takes longer than libcni is its orchestration. It runs in the namespaces
// of a node that has both Multuses; make bench starts it there.
func BenchmarkBesideMultus(b *testing.B) {
	namespace := os.Getenv("NADRA_BENCH_NAMESPACE")
	if namespace == "" {
		b.Skip("make bench runs it in a node")
	}
	discardLog(b)
	for _, c := range besideCases {
		c.binDir = nodePlugins
		b.Run(c.name, func(b *testing.B) { c.beside(b, namespace) })
	}
}

var besideCases = []hookCase{
	{name: "macvlan-1", networks: 1, plugins: macvlanPlugin},
	{name: "macvlan-2", networks: 2, plugins: macvlanPlugin},
	{name: "macvlan-3", networks: 3, plugins: macvlanPlugin}, // as many as the pods of test/bench have
	{name: "macvlan-4", networks: 4, plugins: macvlanPlugin},
	{name: "macvlan-8", networks: 8, plugins: macvlanPlugin},
	{name: "macvlan+tuning+sbr-1", networks: 1, plugins: chainPlugins},
}

func (c hookCase) beside(b *testing.B, namespace string) {
	dir := b.TempDir()
	// Multus' daemon runs in a pod, which sees the namespaces that are mounted here.
	const netns = "/run/netns"
	must(b, os.MkdirAll(netns, 0o755))
	sandboxes, err := os.MkdirTemp(netns, "beside-")
	must(b, err)
	defer func() { must(b, os.RemoveAll(sandboxes)) }()
	world, err := sealed.Enter(sandboxes)
	must(b, err)
	defer func() { must(b, world.Close()) }()
	all, err := c.newFourWays(b.Context(), namespace, dir)
	must(b, err)
	defer func() { must(b, all.close(b.Context())) }()
	ways := all.ways
	for round := range besideWarmUp + besideRounds {
		var adds, dels [4]time.Duration
		for i := range ways {
			which := (round + i) % len(ways)
			w := &ways[which]
			pod, err := newPod(world, w.name, round)
			must(b, err)
			must(b, w.pod(b.Context(), pod, round))
			adds[which], err = timed(func() error { return w.means.add(b.Context(), pod) })
			must(b, err)
			all.has(b, w.name, pod, 1+c.networks) // and lo
			dels[which], err = timed(func() error { return w.means.del(b.Context(), pod) })
			must(b, err)
			all.has(b, w.name, pod, 1)
			must(b, w.forget(b.Context(), pod))
		}
		if round < besideWarmUp {
			continue
		}
		for i := range ways {
			ways[i].add.Add(adds[i])
			ways[i].del.Add(dels[i])
			ways[i].addAdded.Add(adds[i] - adds[0])
			ways[i].delAdded.Add(dels[i] - dels[0])
		}
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(besideRounds, "rounds")
	b.ReportMetric(all.networks.Median(), "networks-ms-libcni")
	for _, w := range ways {
		b.ReportMetric(w.add.Median(), "ms-"+w.name)
		b.ReportMetric(w.del.Median(), "DEL-ms-"+w.name)
		b.ReportMetric(w.addAdded.Median(), "added-ms-"+w.name)
		b.ReportMetric(w.addAdded.Percentile(99), "added-p99-ms-"+w.name)
		b.ReportMetric(w.delAdded.Median(), "DEL-added-ms-"+w.name)
	}
}

// has fails where somebody has not done what is measured.
func (f *fourWays) has(b *testing.B, who string, pod *nri.PodSandbox, interfaces int) {
	b.Helper()
	ns, err := f.nadra.driver.attacher.Netns.Inspect(sandboxOf(pod, nowhere).NetNS)
	must(b, err)
	if len(ns.Links) != interfaces {
		b.Fatalf("the sandbox has %v after %s, want %d interfaces", ns.Links, who, interfaces)
	}
}
