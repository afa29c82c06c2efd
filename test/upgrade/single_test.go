//go:build e2e

package upgrade

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/cli"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestSingleNode moves a cluster of one node to nadra, in a maintenance window, and back. The lane's other
// node has no power meanwhile, and no Node object. No pod is evicted, and no packet is lost.
func TestSingleNode(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), 15*time.Minute)
	defer cancel()
	f := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}}
	f.Must(cluster.LosePower(ctx, f.node(f.nodes()[1]), func() {
		f.Kubectl("delete", "node", f.nodes()[1])
		t.Run("moves", func(t *testing.T) { // a failure ends it, and the other node boots
			one := &fixture{Fixture: lab.Fixture{Lab: theLab, T: t, Ctx: ctx}, dir: t.TempDir()}
			one.moveSingle()
		})
	}))
	f.Must(installMultus(ctx, f.Cluster))
}

// moveSingle moves the only node.
func (f *fixture) moveSingle() {
	f.Helper()
	const withNetworks = ofStack - 1 // the DaemonSet has one pod
	f.Cleanup(func() {
		if f.Failed() { // for the next test
			f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
		}
	})
	f.Must(f.Apply(f.Ctx, stack))
	f.areReady(withNetworks)
	pods := f.running()
	before := f.observed(pods)
	packets := f.begin(f.aims(pods), func(string) bool { return true })
	same := func(when string) {
		f.Helper()
		if diff := cmp.Diff(before, f.observed(f.running())); diff != "" {
			f.Fatalf("the pods %s (-before +now):\n%s", when, diff)
		}
	}

	f.installNadra()
	plan := f.file("plan.yaml", f.nadra("upgrade", "plan"))
	summary := f.nadra("upgrade", "plan", "--from", plan, "-o", "markdown")
	if want := fmt.Sprintf("1 node in 1 wave, 1 namespace; 0 pods evicted, %d pods adopted; 0 blockers", withNetworks); !strings.Contains(summary, want) {
		f.Errorf("the plan has not %q:\n%s", want, summary)
	}
	f.outsideWindow(plan)
	same("outside of the window")
	f.inWindow(plan)
	same("on nadra's node")
	f.areAdopted(withNetworks, f.Cluster.Nodes()[0])
	f.nadra("upgrade", "rollback", "--all", "--yes")
	same("back on Multus' node")
	sent, lost := packets.end()
	f.Logf("%d packets were sent", sent)
	for _, one := range lost {
		f.Errorf("lost: %s", one)
	}
	f.lossIsCounted(pods)
	f.Kubectl("delete", "namespace", namespace, "--timeout=120s")
	f.nadra("uninstall", "--yes")
}

// outsideWindow checks that a run that does not wait ends outside of its window, and has changed nothing.
func (f *fixture) outsideWindow(plan string) {
	f.Helper()
	ended, err := f.Nadra(f.Ctx, "upgrade", "run", "-f", plan, "--yes", "--no-wait", "--window", window(time.Now().Add(2*time.Hour)))
	f.Must(err)
	if ended.Code != cli.CodeOutsideWindow || !strings.Contains(ended.Err, lab.Code(reason.OutsideWindow)) {
		f.Fatalf("outside of its window run ends with %d, want %d:\n%s", ended.Code, cli.CodeOutsideWindow, ended.Err)
	}
	f.isUntouched()
}

// inWindow begins a run outside of its window, and checks that it waits until the window opens, and then moves
// the node.
func (f *fixture) inWindow(plan string) {
	f.Helper()
	opens := time.Now().Add(80 * time.Second).Truncate(time.Minute) // in 20 s or more
	run := f.begun("waiting until", "run", "-f", plan, "--yes", "--window", window(opens))
	if !run.hasPrinted() {
		f.Fatalf("run has ended before its window opened at %s: %v\n%s", opens, run.err, run)
	}
	f.isUntouched()
	if now := time.Now(); !now.Before(opens) {
		f.Fatalf("it is %s, and the window has opened at %s: whether run has waited was not seen", now, opens)
	}
	code := run.code()
	f.Logf("run, in the window of %s, has ended with %d:\n%s", opens, code, run)
	if now := time.Now(); code != cli.CodeOK || now.Before(opens) {
		f.Fatalf("run has ended with %d at %s, want %d after %s", code, now, cli.CodeOK, opens)
	}
}

// isUntouched checks that no node has begun to move.
func (f *fixture) isUntouched() {
	f.Helper()
	for _, n := range f.Kubernetes() {
		if owner := n.Labels["nadra.dev/owner"]; owner != "" || n.Spec.Unschedulable || len(n.Spec.Taints) > 0 {
			f.Errorf("outside of the window node %s has owner %q, is unschedulable: %t, and has taints %v", n.Name, owner, n.Spec.Unschedulable, n.Spec.Taints)
		}
	}
}

// lossIsCounted takes a pod's interface down for a moment, and checks that the lost packets are counted, so
// that a loss in the lane's tests would be seen.
func (f *fixture) lossIsCounted(pods []corev1.Pod) {
	f.Helper()
	p := pods[slices.IndexFunc(pods, func(p corev1.Pod) bool { return p.Labels["app"] == "smf" })]
	sandbox, err := f.NodeOf(&p).PodSandbox(f.Ctx, string(p.UID))
	f.Must(err)
	packets := f.begin(f.aims(pods), func(string) bool { return true })
	f.sh(f.NodeOf(&p), "nsenter --net="+sandbox.NetNS+" sh -ec 'ip link set net1 down; sleep 0.2; ip link set net1 up'")
	_, lost := packets.end()
	f.Logf("net1 of pod %s was down for 0.2 s: lost %q", p.Name, lost)
	if len(lost) != 1 || !strings.HasPrefix(lost[0], "smf on ") {
		f.Errorf("the packets that are counted as lost are %q, want some of one of the two pods smf", lost)
	}
}

// window returns a maintenance window of an hour.
func window(opens time.Time) string {
	const clock = "15:04"
	return opens.UTC().Format(clock) + "-" + opens.UTC().Add(time.Hour).Format(clock) + " UTC"
}
