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

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestStatusWithdrawsANetwork checks that a network whose plugin fails STATUS is withdrawn,
// with an Event that carries the plugin's message, and published again after the repair.
// Pods must keep the network meanwhile.
func TestStatusWithdrawsANetwork(t *testing.T) {
	f := setup(t, "sick")
	f.bridge("br-sick")
	installPlugin(t, "nadra-sick", `case "$CNI_COMMAND" in ADD) `+passOn+`;; STATUS) [ ! -e /run/nadra-sick ] ||
		{ echo '{"cniVersion":"1.1.0","code":50,"msg":"the fabric manager is down"}'; exit 1; };; esac`)
	f.sh("touch /run/nadra-sick")
	f.nad("blue", strings.Replace(chained("br-sick", "10.77.0.0/24", "nadra-sick"), "1.0.0", "1.1.0", 1))
	f.nad("old", chained("br-sick", "10.77.1.0/24", "nadra-sick"))
	f.Must(f.Published(f.Ctx, "sick/old")) // nadra does not run STATUS of an earlier version
	f.Eventually(2*time.Minute, f.event("blue", reason.EventNetworkUnavailable, 1, lab.Code(reason.PluginUnhealthy), f.node.Name(), "nadra-sick", "the fabric manager is down", "code 50"))
	f.Must(f.notPublished(f.Ctx, "sick/blue"))

	f.sh("rm /run/nadra-sick")
	repaired := time.Now()
	f.Must(f.Published(f.Ctx, "sick/blue"))
	t.Logf("published %s after the repair", time.Since(repaired).Round(100*time.Millisecond))
	f.Eventually(2*time.Minute, f.event("blue", reason.EventNetworkAvailable, 1, f.node.Name()))
	f.start("web", lab.Want{Network: "blue"})
	f.slicesStay("blue", func() { f.sh("kill -9 " + f.driverPIDs()) })

	f.sh("touch /run/nadra-sick")
	f.undo = append(f.undo, "rm /run/nadra-sick")
	broken := time.Now()
	f.Eventually(2*time.Minute, func(ctx context.Context) error { return f.notPublished(ctx, "sick/blue") })
	t.Logf("withdrawn %s after the break", time.Since(broken).Round(100*time.Millisecond))
	f.Eventually(2*time.Minute, f.event("blue", reason.EventNetworkUnavailable, 2))
	f.runsOn("web", "net1", "10.77.0.")
	for _, e := range f.Events(f.Ctx, f.NS, "blue") {
		t.Log(e)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
}

// TestCheck requests a CHECK as a pod's owner does: it must pass, report the damage of the
// second of two networks, and pass again after the repair. The driver must report damages
// by itself at its start.
func TestCheck(t *testing.T) {
	f := setup(t, "check")
	f.master("lan8")
	f.bridge("br-chk")
	f.nad("first", strings.NewReplacer("0.3.1", "0.4.0", "lan0", "lan8", "10.50.", "10.78.").Replace(macvlanConf))
	f.nad("second", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-chk","ipam":{"type":"host-local","subnet":"10.79.0.0/24"}}`)
	pod := f.start("web", lab.Want{Network: "first"}, lab.Want{Network: "second"})
	address := f.status(pod, "check/second").IPs[0] + "/24"
	inside := f.inside(pod)
	failed := []string{lab.Code(reason.AttachmentChanged), "check/second", "address " + strings.TrimSuffix(address, "/24") + " of interface net2 "}

	f.annotate("web", "1")
	f.Eventually(2*time.Minute, f.event("web", reason.EventCheckedNetwork, 2))
	f.Must(f.event("web", reason.EventFailedCheckNetwork, 0)(f.Ctx))

	f.sh(inside + "ip addr del " + address + " dev net2")
	f.annotate("web", "2")
	f.Eventually(2*time.Minute, f.event("web", reason.EventFailedCheckNetwork, 1, failed...))
	f.claimWhen(pod, ready("Attached", "CheckFailed"))
	f.Eventually(2*time.Minute, f.event("web", reason.EventCheckedNetwork, 3, "check/first", "net1"))

	f.sh(inside + "ip addr add " + address + " dev net2")
	f.annotate("web", "3")
	f.Eventually(2*time.Minute, f.event("web", reason.EventCheckedNetwork, 5))
	f.claimWhen(pod, ready("Attached", "Attached"))

	f.sh(inside + "ip link del net1")
	f.sh("kill -9 " + f.driverPIDs())
	f.Eventually(time.Minute, f.event("web", reason.EventFailedCheckNetwork, 2, lab.Code(reason.AttachmentChanged), "check/first", "interface net1 "))
	f.claimWhen(pod, ready("CheckFailed", "Attached"))
	f.Must(f.event("web", reason.EventCheckedNetwork, 5)(f.Ctx)) // at the start, passed CHECKs have no Events
	f.runsOn("web", "net2", "10.79.0.")
	for _, e := range f.Events(f.Ctx, f.NS, "web") {
		t.Log(e)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
}

// healthy are configurations of plugins whose CHECK is known to fail, or to need what other plugins of the chain did, on
// attachments that nothing has happened to.
var healthy = map[string]string{
	"macvlan": `{"cniVersion":"1.0.0","name":"macvlan","plugins":[{"type":"macvlan","master":"lan0","ipam":{"type":"host-local","subnet":"10.83.0.0/24"}},
		{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"},"mtu":1400,"mac":"02:00:00:00:83:01"}]}`,
	"bridge": `{"cniVersion":"1.0.0","name":"bridge","plugins":[{"type":"bridge","bridge":"br-hl","isGateway":true,"ipam":{"type":"host-local",
		"ranges":[[{"subnet":"10.83.1.0/24"}],[{"subnet":"fd83::/64"}]],"routes":[{"dst":"10.183.0.0/16"}]}},{"type":"bandwidth","ingressRate":1000000,"ingressBurst":1000000},{"type":"sbr"}]}`,
	"ptp":  `{"cniVersion":"1.0.0","name":"ptp","plugins":[{"type":"ptp","ipam":{"type":"host-local","subnet":"10.83.2.0/24"}},{"type":"sbr"}]}`,
	"host": `{"cniVersion":"1.0.0","name":"host","type":"host-device","device":"hl0","ipam":{"type":"static","addresses":[{"address":"10.83.3.9/24"}]}}`,
	"old":  `{"cniVersion":"0.4.0","name":"old","plugins":[{"type":"macvlan","master":"lan0","ipam":{"type":"static","addresses":[{"address":"10.83.4.9/24","gateway":"10.83.4.1"}]}},{"type":"sbr"}]}`,
}

// TestHealthyPodsAreNotReported restarts the driver while pods run, and asks for their CHECK: no plugin's CHECK becomes a
// warning of a pod to which nothing has happened.
func TestHealthyPodsAreNotReported(t *testing.T) {
	f := setup(t, "healthy")
	f.master("lan0")
	f.master("hl0")
	f.bridge("br-hl")
	for name, config := range healthy {
		f.nad(name, config)
		_, err := f.Create(f.Ctx, f.NS, name, lab.Want{Network: name})
		f.Must(err)
	}
	for name := range healthy {
		_, err := f.Ready(f.Ctx, f.NS, name, 2*time.Minute)
		f.Must(err)
	}
	f.sh("kill -9 " + f.driverPIDs())
	f.Eventually(2*time.Minute, func(context.Context) error {
		text, err := f.metrics()
		if err != nil {
			return err // it is being restarted
		}
		for plugin, want := range map[string]int{"macvlan": 2, "bridge": 1, "ptp": 1, "host-device": 1} {
			var got int
			_, count, _ := strings.Cut(text, `nadra_cni_exec_duration_seconds_count{plugin="`+plugin+`",verb="CHECK"} `)
			if _, err := fmt.Sscan(count, &got); err != nil || got < want {
				return fmt.Errorf("%d CHECKs of %s, want %d: %w", got, plugin, want, err)
			}
		}
		return nil
	})
	for name := range healthy {
		f.annotate(name, "1")
		f.Eventually(time.Minute, f.event(name, reason.EventCheckedNetwork, 1))
	}
	for name := range healthy {
		f.Must(f.event(name, reason.EventFailedCheckNetwork, 0)(f.Ctx))
		for _, e := range f.Events(f.Ctx, f.NS, name) {
			t.Log(e)
		}
		f.Must(f.DeletePod(f.Ctx, f.NS, name))
	}
}

// ready returns a check that succeeds when the Ready conditions of the claim's devices have
// these reasons, by interface.
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

// event returns a check that succeeds when an object has exactly so many Events with a
// reason and, unless times is 0, one of them contains all parts.
func (f *fixture) event(object, eventReason string, times int32, parts ...string) func(context.Context) error {
	return func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Events(f.NS).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + object + ",reason=" + eventReason})
		if err != nil {
			return err
		}
		var sum int32
		missing := fmt.Errorf("no Event %s on %s contains all of %q: %+v", eventReason, object, parts, list.Items)
		for _, e := range list.Items {
			if sum += e.Count; contains("", e.Message, parts) == nil {
				missing = nil
			}
		}
		if sum != times {
			return fmt.Errorf("%d Events %s on %s, want %d: %+v", sum, eventReason, object, times, list.Items)
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

// slicesStay fails the test if a restart of the driver changes the slices, although the
// driver then knows the STATUS of no plugin.
func (f *fixture) slicesStay(network string, restart func()) {
	f.Helper()
	slices, err := f.Kube.ResourceV1().ResourceSlices().List(f.Ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	f.Must(err)
	changes, err := f.Kube.ResourceV1().ResourceSlices().Watch(f.Ctx, metav1.ListOptions{
		FieldSelector: "spec.driver=" + lab.DriverName, ResourceVersion: slices.ResourceVersion,
	})
	f.Must(err)
	defer changes.Stop()
	restart()
	f.start("next", lab.Want{Network: network})
	f.Must(f.DeletePod(f.Ctx, f.NS, "next")) // which takes longer than the first STATUS
	select {
	case e := <-changes.ResultChan():
		f.Errorf("the restart changed a slice: %s %+v", e.Type, e.Object)
	default:
	}
}

// annotate requests a CHECK, as a pod's owner does.
func (f *fixture) annotate(pod, value string) {
	f.Helper()
	_, err := f.Cluster.Kubectl(f.Ctx, "-n", f.NS, "annotate", "pod", pod, "nadra.dev/check="+value, "--overwrite")
	f.Must(err)
}

// inside returns the beginning of a command for the node that runs in the pod's network
// namespace.
func (f *fixture) inside(pod *corev1.Pod) string {
	f.Helper()
	sandbox, err := f.node.PodSandbox(f.Ctx, string(pod.UID))
	f.Must(err)
	return "nsenter --net=" + sandbox.NetNS + " "
}

// runsOn fails the test unless the pod has run all the time and still has its address.
func (f *fixture) runsOn(name, ifName, address string) {
	f.Helper()
	pod, err := f.Ready(f.Ctx, f.NS, name, 5*time.Second)
	f.Must(err)
	if s := pod.Status.ContainerStatuses[0]; s.RestartCount > 0 {
		f.Errorf("the container was restarted: %+v", s)
	}
	out, err := f.Exec(f.Ctx, f.NS, name, "ip", "addr", "show", ifName)
	if err != nil || !strings.Contains(out, address) {
		f.Errorf("%s: %v\n%s", ifName, err, out)
	}
}
