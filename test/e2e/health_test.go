//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// A network whose plugin is not well by STATUS is withdrawn, with the plugin's
// words, and comes back; pods that have it keep it.
func TestStatusWithdrawsANetwork(t *testing.T) {
	f := setup(t, "sick")
	f.bridge("br-sick")
	installPlugin(t, "nadra-sick", `case "$CNI_COMMAND" in ADD) `+passOn+`;; STATUS) [ ! -e /run/nadra-sick ] ||
		{ echo '{"cniVersion":"1.1.0","code":50,"msg":"the fabric manager is down"}'; exit 1; };; esac`)
	f.sh("touch /run/nadra-sick")
	f.nad("blue", strings.Replace(chained("br-sick", "10.77.0.0/24", "nadra-sick"), "1.0.0", "1.1.0", 1))
	f.nad("old", chained("br-sick", "10.77.1.0/24", "nadra-sick"))
	f.must(f.Published(f.ctx, "sick/old")) // nobody asks a plugin of an earlier version
	f.eventually(2*time.Minute, f.event("blue", "NetworkUnavailable", 1, f.node.Name(), `plugin type="nadra-sick"`, "the fabric manager is down", "code 50"))
	f.must(f.notPublished(f.ctx, "sick/blue"))

	f.sh("rm /run/nadra-sick")
	repaired := time.Now()
	f.must(f.Published(f.ctx, "sick/blue"))
	t.Logf("published %s after the repair", time.Since(repaired).Round(100*time.Millisecond))
	f.eventually(2*time.Minute, f.event("blue", "NetworkAvailable", 1, f.node.Name()))
	f.start("web", lab.Want{Network: "blue"})
	f.slicesStay("blue", func() { f.sh("kill -9 " + f.driverPIDs()) })

	f.sh("touch /run/nadra-sick")
	f.undo = append(f.undo, "rm /run/nadra-sick")
	broken := time.Now()
	f.eventually(2*time.Minute, func(ctx context.Context) error { return f.notPublished(ctx, "sick/blue") })
	t.Logf("withdrawn %s after the break", time.Since(broken).Round(100*time.Millisecond))
	f.eventually(2*time.Minute, f.event("blue", "NetworkUnavailable", 2))
	f.runsOn("web", "net1", "10.77.0.")
	for _, e := range f.Events(f.ctx, f.ns, "blue") {
		t.Log(e)
	}
	f.must(f.DeletePod(f.ctx, f.ns, "web"))
}

// A pod's owner asks for a CHECK: it passes, tells what is broken in the second
// of two networks, and passes again when that is repaired. A driver that is
// started tells of itself.
func TestCheck(t *testing.T) {
	f := setup(t, "check")
	f.master("lan8")
	f.bridge("br-chk")
	f.nad("first", strings.NewReplacer("0.3.1", "0.4.0", "lan0", "lan8", "10.50.", "10.78.").Replace(macvlanConf))
	f.nad("second", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-chk","ipam":{"type":"host-local","subnet":"10.79.0.0/24"}}`)
	pod := f.start("web", lab.Want{Network: "first"}, lab.Want{Network: "second"})
	address := f.status(pod, "check/second").IPs[0] + "/24"
	inside := f.inside(pod)
	failed := []string{"check/second (net2)", `plugin type="bridge"`, "delete it"}

	f.annotate("web", "1")
	f.eventually(2*time.Minute, f.event("web", "CheckedNetwork", 2))
	f.must(f.event("web", "FailedCheckNetwork", 0)(f.ctx))

	f.sh(inside + "ip addr del " + address + " dev net2")
	f.annotate("web", "2")
	f.eventually(2*time.Minute, f.event("web", "FailedCheckNetwork", 1, failed...))
	f.claimWhen(pod, ready("Attached", "CheckFailed"))
	f.eventually(2*time.Minute, f.event("web", "CheckedNetwork", 3, "check/first (net1)"))

	f.sh(inside + "ip addr add " + address + " dev net2")
	f.annotate("web", "3")
	f.eventually(2*time.Minute, f.event("web", "CheckedNetwork", 5))
	f.claimWhen(pod, ready("Attached", "Attached"))

	f.sh(inside + "ip link del net1")
	f.sh("kill -9 " + f.driverPIDs())
	f.eventually(time.Minute, f.event("web", "FailedCheckNetwork", 2, "check/first (net1)", `plugin type="macvlan"`))
	f.claimWhen(pod, ready("CheckFailed", "Attached"))
	f.must(f.event("web", "CheckedNetwork", 5)(f.ctx)) // at the start, what passes is silent
	f.runsOn("web", "net2", "10.79.0.")
	for _, e := range f.Events(f.ctx, f.ns, "web") {
		t.Log(e)
	}
	f.must(f.DeletePod(f.ctx, f.ns, "web"))
}

// ready succeeds when the claim's devices are Ready or not with these reasons,
// by interface.
func ready(net1, net2 string) func(*resourceapi.ResourceClaim) error {
	return func(c *resourceapi.ResourceClaim) error {
		got := map[string]string{}
		for _, d := range c.Status.Devices {
			r := d.Conditions[0]
			got[d.NetworkData.InterfaceName] = fmt.Sprintf("%s %s", r.Reason, r.Status)
		}
		status := map[string]string{"Attached": "Attached True", "CheckFailed": "CheckFailed False"}
		if got["net1"] != status[net1] || got["net2"] != status[net2] {
			return fmt.Errorf("conditions %v", got)
		}
		return nil
	}
}

// event succeeds when there were so many events of this reason on the object
// and, if any, one says all of this.
func (f *fixture) event(object, reason string, times int32, says ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Events(f.ns).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + object + ",reason=" + reason})
		if err != nil {
			return err
		}
		var sum int32
		missing := fmt.Errorf("no event %s on %s says %q: %+v", reason, object, says, list.Items)
		for _, e := range list.Items {
			if sum += e.Count; contains("", e.Message, says) == nil {
				missing = nil
			}
		}
		if sum != times {
			return fmt.Errorf("%d events %s on %s, want %d: %+v", sum, reason, object, times, list.Items)
		}
		if times == 0 {
			return nil
		}
		return missing
	}
}

func (f *fixture) notPublished(ctx context.Context, nad string) error {
	if f.published(ctx, nad) == nil {
		return fmt.Errorf("%s is published", nad)
	}
	return nil
}

// slicesStay fails the test when a restart of the driver changes what is
// published, though it does not know of any plugin that it is well.
func (f *fixture) slicesStay(network string, restart func()) {
	f.Helper()
	slices, err := f.Kube.ResourceV1().ResourceSlices().List(f.ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	f.must(err)
	changes, err := f.Kube.ResourceV1().ResourceSlices().Watch(f.ctx, metav1.ListOptions{
		FieldSelector: "spec.driver=" + lab.DriverName, ResourceVersion: slices.ResourceVersion,
	})
	f.must(err)
	defer changes.Stop()
	restart()
	f.start("next", lab.Want{Network: network})
	f.must(f.DeletePod(f.ctx, f.ns, "next")) // which takes longer than a first look
	select {
	case e := <-changes.ResultChan():
		f.Errorf("the restart changed a slice: %s %+v", e.Type, e.Object)
	default:
	}
}

// annotate asks for a CHECK, as an owner does.
func (f *fixture) annotate(pod, value string) {
	f.Helper()
	_, err := f.Cluster.Kubectl(f.ctx, "-n", f.ns, "annotate", "pod", pod, "nadra.dev/check="+value, "--overwrite")
	f.must(err)
}

// inside begins a command for the node that is run in the pod's network
// namespace.
func (f *fixture) inside(pod *corev1.Pod) string {
	f.Helper()
	claim, err := f.Claim(f.ctx, pod)
	f.must(err)
	path := f.sh(fmt.Sprintf(`grep -o '"netNS":"[^"]*"' /var/lib/nadra/claims/%s.json | head -1 | cut -d'"' -f4`, claim.UID))
	return "nsenter --net=" + strings.TrimSpace(path) + " "
}

// runsOn fails the test unless the pod has run all the time and has its address.
func (f *fixture) runsOn(name, ifName, address string) {
	f.Helper()
	pod, err := f.Ready(f.ctx, f.ns, name, 5*time.Second)
	f.must(err)
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount > 0 {
		f.Errorf("the container was restarted: %+v", s)
	}
	out, err := f.Exec(f.ctx, f.ns, name, "ip", "addr", "show", ifName)
	if err != nil || !strings.Contains(out, address) {
		f.Errorf("%s: %v\n%s", ifName, err, out)
	}
}
