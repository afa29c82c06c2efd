//go:build e2e

// Package bench measures what nadra costs and writes docs/performance.md.
package bench

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

var (
	// theLab is the cluster of the benchmarks that need one, once it is started.
	theLab *lab.Lab
	// figures are what has been measured so far.
	figures report
	// runDir is where the cluster keeps its files.
	runDir string
)

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if runDir, err = os.MkdirTemp("", "nadra-bench-"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(runDir)
	// Before anything is measured: the tree may change meanwhile.
	if figures.Commit, err = commit(ctx); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if code = m.Run(); code == 0 {
		err = figures.finish(ctx)
	}
	if theLab != nil {
		if stopErr := theLab.Cluster.Stop(context.WithoutCancel(ctx)); stopErr != nil {
			err = stopErr
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return code
}

// startLab starts the cluster at the first call: what needs none is measured
// before, without its noise.
func startLab(b *testing.B) *lab.Lab {
	b.Helper()
	if theLab == nil {
		l, err := lab.Start(b.Context(), cluster.Options{Dir: runDir}, os.Stderr)
		must(b, err)
		theLab = l
	}
	return theLab
}

// setup makes a namespace and a master for macvlan on the node, and takes both
// away after the benchmark.
func setup(b *testing.B, namespace, master string) *lab.Lab {
	b.Helper()
	l := startLab(b)
	must(b, l.CreateNamespace(b.Context(), namespace))
	node := l.Cluster.Node(1)
	_, err := node.Exec(b.Context(), "sh", "-c",
		fmt.Sprintf("ip link add %[1]s type veth peer name %[1]sp && ip link set %[1]s up && ip link set %[1]sp up", master))
	must(b, err)
	b.Cleanup(func() {
		ctx := context.WithoutCancel(b.Context())
		for _, args := range [][]string{
			{"-n", namespace, "delete", "pods", "--all", "--timeout=180s"},
			{"-n", namespace, "delete", "network-attachment-definitions", "--all"},
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

// macvlan is the configuration of the network of that number.
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
