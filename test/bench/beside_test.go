package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/test/bench/sealed"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// besideFigures has one case of the comparison of nadra and Multus with libcni for the same
// networks, in milliseconds per pod.
type besideFigures struct{ hookFigures }

// At returns a figure of the case by its unit.
func (f besideFigures) At(unit string) float64 { return f.Figures[unit] }

// Ratio returns nadra's overhead over libcni as a share of thick Multus' overhead.
func (f besideFigures) Ratio() float64 { return f.At("added-ms-nadra") / f.At("added-ms-thick") }

// Allowed returns the goal for nadra's overhead: 1 ms and 2 %.
func (f besideFigures) Allowed() float64 { return 1 + 0.02*f.At("ms-libcni") }

// Goal reports whether nadra's overhead is within the goal, and at most a tenth of Multus'.
func (f besideFigures) Goal() string {
	switch {
	case f.At("added-ms-nadra") > f.Allowed() && f.Ratio() > ratioGoal:
		return "missed"
	case f.At("added-ms-nadra") > f.Allowed():
		return "ratio met, time missed"
	case f.Ratio() > ratioGoal:
		return "time met, ratio missed"
	}
	return "met"
}

// ratioGoal is the largest share of thick Multus' overhead that nadra may have.
const ratioGoal = 0.1

// BenchmarkBesideMultus runs pkg/driver's benchmark of that name on a node with thick
// Multus' daemon and with the API server that both forms of Multus ask. It stops the node's
// kubelet, so that only the benchmark creates sandboxes for the pods.
func BenchmarkBesideMultus(b *testing.B) {
	figures.begin(b, "beside")
	l := threeNodes(b)
	node := l.Cluster.Node(thickNode)
	must(b, l.CreateNamespace(b.Context(), "beside"))
	thin, err := cluster.BuildMultus(b.Context(), os.Stderr)
	must(b, err)
	must(b, node.InstallPlugin("multus", thin))
	program := filepath.Join(b.TempDir(), "driver.test")
	build := exec.CommandContext(b.Context(), "go", "test", "-c", "-tags", "e2e", "-o", program, "./pkg/driver")
	build.Dir, build.Stderr = lab.Root(), os.Stderr
	must(b, build.Run())

	must(b, node.Kill(b.Context(), cluster.Kubelet, unix.SIGTERM))
	out, err := runInside(b.Context(), node, program)
	fmt.Printf("\n%s", out)
	// The node is the next benchmark's, also if this one fails.
	must(b, node.StartComponent(b.Context(), cluster.Kubelet))
	must(b, l.nodeReady(b.Context(), node))
	if err != nil {
		log, logErr := l.Cluster.Kubectl(b.Context(), "-n", "kube-system", "logs", "daemonset/kube-multus-ds", "--tail=40")
		b.Fatalf("measuring in %s: %v; the log of Multus' daemon (%v)\n%s", node.Name(), err, logErr, log)
	}
	for _, h := range parseHook(b, out, "BenchmarkBesideMultus/") {
		figures.Beside = append(figures.Beside, besideFigures{h})
	}
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(len(figures.Beside)), "cases")
}

func runInside(ctx context.Context, node *cluster.Node, program string) ([]byte, error) {
	cmd := node.Command(ctx, program, "-test.run=^$", "-test.bench=^BenchmarkBesideMultus$", "-test.count=1", "-test.timeout=20m")
	cmd.Env = append(cmd.Env, "NADRA_BENCH_NAMESPACE=beside")
	if err := sealed.Within(cmd); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, os.Stderr
	err := node.Run(cmd)
	return out.Bytes(), err
}
