//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// chained returns the configuration of a bridge with another plugin after it.
func chained(bridge, subnet, plugin string) string {
	return fmt.Sprintf(`{"cniVersion":"1.0.0","plugins":[{"type":"bridge","bridge":%q,"ipam":{"type":"host-local","subnet":%q}},{"type":%q}]}`,
		bridge, subnet, plugin)
}

// passOn is a plugin's ADD that changes nothing: it prints its prevResult.
const passOn = `sed -n 's/.*"prevResult":\(.*\),"type".*/\1/p'`

// TestSlowPluginHoldsOnlyItsPod runs a plugin that takes longer than the hook may, until another
// pod is Ready. The gate must hold the pod's containers until the plugin has ended, and must not
// hold those of other pods.
func TestSlowPluginHoldsOnlyItsPod(t *testing.T) {
	f := setup(t, "slow")
	f.bridge("br-slow")
	f.undo = append(f.undo, "rm -f /run/nadra-slow")
	installPlugin(t, "nadra-slow", `[ "$CNI_COMMAND" = ADD ] && { while [ -e /run/nadra-slow ]; do sleep 0.1; done; `+passOn+`; }; exit 0`)
	f.nad("slow", chained("br-slow", "10.72.0.0/24", "nadra-slow"))
	f.nad("fast", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-slow","ipam":{"type":"host-local","subnet":"10.72.1.0/24"}}`)
	f.prove("slow")
	f.sh("touch /run/nadra-slow") // the plugin waits while it is there
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "slow", lab.Want{Network: "slow"})))
	_, err := f.CreatePod(f.Ctx, needsNetwork(lab.Pod(f.NS, "slow", "slow")))
	f.Must(err)
	f.Eventually(2*time.Minute, f.gatesAre(1))
	f.start("other", lab.Want{Network: "fast"})
	if f.gatesWaiting() == 0 {
		t.Error("no container of the slow pod is at the gate any more, and its plugin has not ended")
	}
	f.sh("rm /run/nadra-slow")
	pod, err := f.Ready(f.Ctx, f.NS, "slow", time.Minute)
	f.Must(err)
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount > 0 {
		t.Errorf("a container was restarted: %+v", s)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "slow"))
	f.Must(f.DeletePod(f.Ctx, f.NS, "other"))
}

// prove attaches a pod to a network, and deletes it. Containers are left to the gate only for networks that are known to work.
func (f *fixture) prove(network string) {
	f.Helper()
	f.start("proof", lab.Want{Network: network})
	f.Must(f.DeletePod(f.Ctx, f.NS, "proof"))
}

// TestDeletionReleasesTheGate checks that the deletion of a pod releases its containers
// from the gate within 2 s.
func TestDeletionReleasesTheGate(t *testing.T) {
	f := setup(t, "release")
	f.bridge("br-rel")
	f.undo = append(f.undo, "rm -f /run/nadra-sleeps")
	installPlugin(t, "nadra-sleeps", `[ "$CNI_COMMAND" = ADD ] && { [ ! -e /run/nadra-sleeps ] || exec sleep 600; `+passOn+`; }; exit 0`)
	f.nad("blue", chained("br-rel", "10.73.0.0/24", "nadra-sleeps"))
	f.prove("blue")
	f.sh("touch /run/nadra-sleeps")
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "web", lab.Want{Network: "blue"})))
	pod := lab.Pod(f.NS, "web", "web")
	second := *pod.Spec.Containers[0].DeepCopy()
	second.Name = "second"
	pod.Spec.Containers = append(pod.Spec.Containers, second)
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	f.Eventually(2*time.Minute, f.gatesAre(1))
	f.Must(f.Kube.CoreV1().Pods(f.NS).Delete(f.Ctx, "web", metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](1)}))
	deleted := time.Now()
	f.Eventually(2*time.Minute, f.gatesAre(0))
	if took := time.Since(deleted); took > 2*time.Second {
		t.Errorf("the gate was released %s after the deletion", took)
	} else {
		t.Logf("the gate was released %s after the deletion", took)
	}
	f.Eventually(2*time.Minute, func(ctx context.Context) error { return f.podGone(ctx, "web") })
	f.Must(f.Kube.ResourceV1().ResourceClaimTemplates(f.NS).Delete(f.Ctx, "web", metav1.DeleteOptions{}))
}

// TestBrokenDelLetsThePodGo checks that a pod can be deleted although its plugin's DEL
// fails, and that nothing is left after the plugin's repair.
func TestBrokenDelLetsThePodGo(t *testing.T) {
	f := setup(t, "broken-del")
	f.bridge("br-del")
	installPlugin(t, "nadra-nodel", `case "$CNI_COMMAND" in ADD) `+passOn+`;; DEL) [ ! -e /run/nadra-nodel ] || { echo '{"code":100,"msg":"daemon is down"}'; exit 1; };; esac`)
	f.nad("blue", chained("br-del", "10.74.0.0/24", "nadra-nodel"))
	f.start("web", lab.Want{Network: "blue"})
	f.sh("touch /run/nadra-nodel")
	started := time.Now()
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	t.Logf("the pod was gone after %s", time.Since(started))
	f.Eventually(2*time.Minute, func(ctx context.Context) error {
		events := f.Events(ctx, f.NS, "web")
		if !slices.ContainsFunc(events, func(e string) bool {
			return contains("", e, []string{reason.EventFailedReleaseNetwork, lab.Code(reason.DELFailed), "broken-del/blue", "net1", "daemon is down"}) == nil
		}) {
			return fmt.Errorf("no Event reports the failed DEL:\n%s", strings.Join(events, "\n"))
		}
		return nil
	})
	if pending := f.sh("ls " + f.at.State + "/pending-dels"); strings.Count(pending, ".json") != 1 {
		t.Errorf("pending DELs, want one: %s", pending)
	}
	f.sh("rm /run/nadra-nodel")
	f.Eventually(2*time.Minute, func(context.Context) error {
		if pending := f.sh("ls " + f.at.State + "/pending-dels"); pending != "" {
			return fmt.Errorf("DELs are still pending: %s", pending)
		}
		return nil
	})
}

// TestDamagedRecord damages a record. Its pod must run on, an Event must report the damage,
// and the deletion of the pod must release its address.
func TestDamagedRecord(t *testing.T) {
	f := setup(t, "damaged")
	f.bridge("br-dam")
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-dam","ipam":{"type":"host-local","subnet":"10.75.0.0/24"}}`)
	pod := f.start("web", lab.Want{Network: "blue"})
	claim, err := f.Claim(f.Ctx, pod)
	f.Must(err)
	first := f.driverPIDs()
	f.sh(fmt.Sprintf("echo '{\"version\":1,' >%s/claims/%s.json && kill -9 %s", f.at.State, claim.UID, first))
	f.Eventually(time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Events("default").List(ctx, metav1.ListOptions{FieldSelector: "reason=NetworkStateDamaged"})
		if err == nil && !slices.ContainsFunc(list.Items, func(e corev1.Event) bool {
			return reason.In(e.Message) == reason.StateDamaged && strings.Contains(e.Message, string(claim.UID))
		}) {
			err = errors.New("no Event of the node reports the damage")
		}
		return err
	})
	f.sh("rm -r " + f.at.State + "/damaged/*") // kept for investigation; not a leak
	if out, err := f.Exec(f.Ctx, f.NS, "web", "ip", "addr", "show", "net1"); err != nil {
		t.Errorf("the pod has lost its network: %v\n%s", err, out)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
	f.Eventually(2*time.Minute, func(context.Context) error { // the sweep's turn
		if left := f.sh("ls " + f.at.State + "/cni/results /var/lib/cni/networks/blue | grep -v -e lock -e last_reserved -e ':$' || true"); strings.TrimSpace(left) != "" {
			return fmt.Errorf("left: %s", left)
		}
		return nil
	})
}

// gatesAre returns a check that succeeds when n containers wait at the gate.
func (f *fixture) gatesAre(n int) func(context.Context) error {
	return func(context.Context) error {
		if got := f.gatesWaiting(); got != n {
			return fmt.Errorf("%d containers are at the gate, not %d", got, n)
		}
		return nil
	}
}

// podGone returns an error unless the pod is gone.
func (f *fixture) podGone(ctx context.Context, name string) error {
	list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{FieldSelector: "metadata.name=" + name})
	if err == nil && len(list.Items) > 0 {
		err = fmt.Errorf("pod %s/%s is still there", f.NS, name)
	}
	return err
}
