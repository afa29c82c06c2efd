//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// usualBurst is the number of pods of a burst, unless BURST_PODS has another.
	usualBurst = 40
	// burstLimit is how long the pods of a burst may take to be Ready, or gone.
	burstLimit = 6 * time.Minute
)

// burstPods returns the number of pods of a burst.
func burstPods(t *testing.T) int {
	t.Helper()
	text := os.Getenv("BURST_PODS")
	if text == "" {
		return usualBurst
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 2 {
		t.Fatalf("BURST_PODS is %q: it must be a number of pods", text)
	}
	return n
}

// burst scales a Deployment up and down, first with annotated pods and then with pods
// that carry claims. The reconciler runs by its schedule, and once in the middle.
func burst(t *testing.T) {
	f := setup(t, "wa-burst", inRange("burst", "10.160.0.0/23"))
	f.ApplyYAML(lab.Workload("Deployment", "burst", "replicas: 0", "burst", ""))
	f.ApplyYAML(f.converted(lab.Workload("Deployment", "claims", "replicas: 0", "burst", "")))
	var took []string
	for _, name := range []string{"burst", "claims"} {
		took = append(took, seconds(f.up(name)))
		f.down(name)
	}
	lines["nadra"] = f.line("nadra", took)
}

// TestBurstUnderMultus scales a Deployment up and down under Multus on both nodes.
func TestBurstUnderMultus(t *testing.T) {
	giveToMultus(t, theLab.Cluster.Nodes()...)
	f := setupFor(t, "wa-multus", api.OwnerMultus, inRange("burst", "10.162.0.0/23"))
	f.counted = nil // findings are Multus' own
	f.ApplyYAML(lab.Workload("Deployment", "burst", "replicas: 0", "burst", ""))
	took := f.up("burst")
	f.down("burst")
	lines["multus"] = f.line("multus", []string{seconds(took)})
}

// giveToMultus installs Multus on nodes and takes nadra's label away from them, until the test ends.
func giveToMultus(t *testing.T, nodes ...*cluster.Node) {
	t.Helper()
	programs, err := cluster.BuildThickMultus(interrupted, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { giveToNadra(t) })
	for _, n := range nodes {
		if err := theLab.Label(interrupted, "node/"+n.Name(), ""); err != nil {
			t.Fatal(err)
		}
		if err := n.Multus().Install(interrupted, programs); err != nil {
			t.Fatal(err)
		}
	}
}

// giveToNadra removes Multus from the nodes and labels them for nadra again.
func giveToNadra(t *testing.T) {
	for _, n := range theLab.Cluster.Nodes() {
		if n.Running("multus-daemon") {
			if err := n.Multus().Remove(interrupted); err != nil {
				t.Error(err)
			}
		}
		if err := theLab.Label(interrupted, "node/"+n.Name(), api.OwnerNadra); err != nil {
			t.Error(err)
		}
	}
}

// converted returns a manifest as `kubectl nadra convert` writes it.
func (f *fixture) converted(manifest string) string {
	f.Helper()
	file := f.TempDir() + "/manifest.yaml"
	f.Must(os.WriteFile(file, []byte(manifest), 0o644))
	out, err := f.Nadra(f.Ctx, "convert", "-n", f.NS, "-f", file)
	f.Must(err)
	if out.Code != 0 {
		f.Fatalf("converting: %d\n%s", out.Code, out.Err)
	}
	return out.Out
}

// up scales a Deployment up and returns the time until all of its pods were Ready.
func (f *fixture) up(name string) time.Duration {
	f.Helper()
	many := burstPods(f.T)
	began := time.Now()
	before, _ := f.checker.lives()
	f.Kubectl("scale", "deployment", name, fmt.Sprintf("--replicas=%d", many))
	f.Eventually(burstLimit, func(context.Context) error {
		if started, _ := f.checker.lives(); started-before < many/2 {
			return fmt.Errorf("%d of %d pods have started", started-before, many)
		}
		return nil
	})
	f.Logf("the reconciler, at half of the pods: freed %v", f.reconcile())
	f.pods(name, many, burstLimit)
	return time.Since(began)
}

func (f *fixture) down(name string) {
	f.Helper()
	f.Kubectl("scale", "deployment", name, "--replicas=0")
	f.pods(name, 0, burstLimit)
}

// line returns the summary of bursts.
func (f *fixture) line(who string, took []string) string {
	duplicates, lost := f.checker.findings()
	pods, _ := f.checker.lives()
	return fmt.Sprintf("%s: pods=%d ready=%v duplicates=%d lost=%d %s", who, pods, took, len(duplicates), len(lost), f.checker.delays())
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.0fs", d.Seconds()) }
