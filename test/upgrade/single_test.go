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

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestSingleNode moves a cluster of one node to nadra and back. The lane's other
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
	f.Must(f.InstallMultus(ctx, nil))
}

// moveSingle moves the only node.
func (f *fixture) moveSingle() {
	f.Helper()
	const withNetworks = ofStack - 1 // the DaemonSet has one pod
	f.afterFailure(func(f *fixture) { f.Kubectl("delete", "namespace", namespace, "--timeout=120s") })
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
	if want := fmt.Sprintf("1 node in 1 wave, 1 namespace; %d pods adopted; 0 blockers", withNetworks); !strings.Contains(summary, want) {
		f.Errorf("the plan has not %q:\n%s", want, summary)
	}
	f.nadra("upgrade", "run", "-f", plan, "--yes")
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
