// Package bench measures the costs of nadra, writes docs/reference/performance.json, and makes of it performance.md with
// its picture and performance-tables.md. It has only tests: benchmarks on clusters, and tests of the documents.
package bench

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

var (
	// theLab is the cluster of the running benchmark, if it needs one, and labNodes the
	// number of its nodes.
	theLab   *lab.Lab
	labNodes int
	// figures has everything that was measured so far.
	figures report
	// runDir is where the cluster keeps its files.
	runDir string
)

func TestMain(m *testing.M) {
	lab.Main("bench", func(ctx context.Context, dir string) int { return run(ctx, dir, m) })
}

func run(ctx context.Context, dir string, m *testing.M) (code int) {
	if flag.Lookup("test.bench").Value.String() == "" {
		return m.Run() // the tests of the documents
	}
	runDir = dir
	err := os.Setenv(cluster.InlineVariable, cmp.Or(os.Getenv(cluster.InlineVariable), "1"))
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	// Read the commit before measuring, because the tree may change meanwhile.
	if figures.Commit, err = commit(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	figures.Boot = string(boot)
	if err = figures.resume(); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code = m.Run(); code == 0 {
		err = figures.finish()
	}
	if err = errors.Join(err, stopLab(ctx)); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// startLab starts a cluster of one node, unless the previous benchmark has left it.
func startLab(b *testing.B) *lab.Lab {
	b.Helper()
	return useLab(b, cluster.Options{Nodes: 1}, func(*lab.Lab) error { return nil })
}

// defaultGOGC is Go's default, which components have in a real cluster.
const defaultGOGC = 100

// useLab starts a cluster and prepares it, unless the previous benchmark has left one with
// that number of nodes. Only one cluster runs at a time, so that no other disturbs the
// measurement.
func useLab(b *testing.B, o cluster.Options, prepare func(*lab.Lab) error) *lab.Lab {
	b.Helper()
	if theLab != nil && labNodes == o.Nodes {
		return theLab
	}
	noLab(b)
	o.Dir, o.GOGC = filepath.Join(runDir, "cluster"), defaultGOGC
	l, err := lab.Start(b.Context(), o, os.Stderr)
	must(b, err)
	theLab, labNodes = l, o.Nodes
	figures.Machine, err = thisMachine(b.Context(), l)
	must(b, err)
	must(b, prepare(l))
	return l
}

// noLab stops the cluster, so that it does not disturb a benchmark without one.
func noLab(b *testing.B) {
	b.Helper()
	must(b, stopLab(b.Context()))
}

func stopLab(ctx context.Context) error {
	if theLab == nil {
		return nil
	}
	l := theLab
	theLab = nil
	return l.Cluster.Stop(context.WithoutCancel(ctx))
}

// setup creates a namespace and a macvlan master on the node, and deletes both after the
// benchmark.
func setup(b *testing.B, namespace, master string) *lab.Lab {
	b.Helper()
	l := startLab(b)
	must(b, l.CreateNamespace(b.Context(), namespace))
	node := l.Cluster.Node(1)
	must(b, lab.MakeLink(b.Context(), node, master))
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		for _, args := range [][]string{
			{"-n", namespace, "delete", "pods", "--all", "--timeout=180s"},
			// All at once: there may be 10,000.
			{"delete", "--raw", "/apis/k8s.cni.cncf.io/v1/namespaces/" + namespace + "/network-attachment-definitions"},
			{"delete", "namespace", namespace, "--wait=false"},
		} {
			if _, err := l.Cluster.Kubectl(ctx, args...); err != nil {
				b.Error(err)
			}
		}
		if _, err := node.Exec(ctx, "ip", "link", "del", master); err != nil {
			b.Error(err)
		}
	})
	return l
}

// macvlan returns the configuration of network i.
func macvlan(master string, i int) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","type":"macvlan","master":%q,"mode":"bridge",
		"ipam":{"type":"host-local","subnet":"10.%d.%d.0/24"}}`, master, 110+i/250, i%250)
}

func must(b *testing.B, err error) {
	b.Helper()
	if err != nil {
		b.Fatal(err)
	}
}
