//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"net/netip"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

const (
	macvlanConf = `{"cniVersion":"0.3.1","type":"macvlan","master":"lan0","mode":"bridge",
		"ipam":{"type":"host-local","subnet":"10.50.0.0/24","rangeStart":"10.50.0.10","rangeEnd":"10.50.0.99"}}`
	bridgeConf = `{"cniVersion":"1.0.0","name":"storage","plugins":[
		{"type":"bridge","bridge":"br-e2e","ipam":{"type":"host-local","subnet":"10.60.0.0/24"}},
		{"type":"tuning","sysctl":{"net.ipv4.conf.IFNAME.arp_filter":"1"}}]}`
)

// TestPath follows the main path: NADs, pods with networks, and their end without
// leftovers.
func TestPath(t *testing.T) {
	f := setup(t, "path")
	f.master("lan0")
	f.bridge("br-e2e")
	f.nad("macvlan-conf", macvlanConf)
	f.nad("bridge-conf", bridgeConf)

	f.Must(f.Published(f.Ctx, "path/macvlan-conf", "path/bridge-conf"))
	wants := []lab.Want{{Network: "macvlan-conf"}, {Network: "bridge-conf"}}
	one, two := f.start("one", wants...), f.start("two", wants...)

	t.Run("the interfaces are in the pod", func(t *testing.T) {
		for _, ifName := range []string{"net1", "net2"} {
			out, err := f.Exec(f.Ctx, f.NS, "one", "ip", "addr", "show", ifName)
			if err != nil || !strings.Contains(out, "UP,LOWER_UP") {
				t.Errorf("ip addr show %s: %v\n%s", ifName, err, out)
			}
		}
		out, err := f.Exec(f.Ctx, f.NS, "one", "cat", "/proc/sys/net/ipv4/conf/net2/arp_filter")
		if err != nil || strings.TrimSpace(out) != "1" {
			t.Errorf("tuning, the second plugin of the chain, set arp_filter to %q (%v)", out, err)
		}
	})
	t.Run("two pods reach each other over each network", func(t *testing.T) {
		for _, network := range []string{"path/macvlan-conf", "path/bridge-conf"} {
			peer := f.status(two, network).IPs[0]
			if out, err := f.Exec(f.Ctx, f.NS, "one", "ping", "-c1", "-W3", peer); err != nil {
				t.Errorf("ping %s over %s: %v\n%s", peer, network, err, out)
			}
		}
	})
	t.Run("network-status lists the default network first", func(t *testing.T) {
		var names []string
		for _, s := range f.statuses(one) {
			names = append(names, s.Name+" "+s.Interface)
		}
		if diff := cmp.Diff([]string{"default eth0", "path/macvlan-conf net1", "path/bridge-conf net2"}, names); diff != "" {
			t.Errorf("entries (-want +got):\n%s", diff)
		}
		first := f.statuses(one)[0]
		if !first.Default || !slices.Contains(first.IPs, one.Status.PodIP) || first.Mac == "" || len(first.Gateway) != len(familiesOf[f.Cluster.Families()]) {
			t.Errorf("the default network's entry: %+v", first)
		}
	})
	t.Run("the claim's status has conditions and network data", func(t *testing.T) {
		claim := f.claimWhen(one, func(c *resourceapi.ResourceClaim) error {
			if len(c.Status.Devices) != 2 {
				return fmt.Errorf("status of %d devices", len(c.Status.Devices))
			}
			return nil
		})
		for i, d := range claim.Status.Devices {
			ready := d.Conditions[0]
			if ready.Type != "Ready" || ready.Status != metav1.ConditionTrue || ready.Reason != "Attached" {
				t.Errorf("device %d: condition %+v", i, ready)
			}
			if d.NetworkData == nil || len(d.NetworkData.IPs) != 1 || d.NetworkData.HardwareAddress == "" {
				t.Fatalf("device %d: network data %+v", i, d.NetworkData)
			}
			ip := netip.MustParsePrefix(d.NetworkData.IPs[0])
			network := map[string]string{"net1": "path/macvlan-conf", "net2": "path/bridge-conf"}[d.NetworkData.InterfaceName]
			if got := f.status(one, network); got.IPs[0] != ip.Addr().String() || got.Mac != d.NetworkData.HardwareAddress {
				t.Errorf("%s: the claim has %s %s, the annotation %+v", network, ip, d.NetworkData.HardwareAddress, got)
			}
		}
	})
	t.Run("there is an event with each interface", func(t *testing.T) {
		var added []string
		for _, s := range f.statuses(one)[1:] {
			added = append(added, fmt.Sprintf("Add %s [%s/24] from %s", s.Interface, s.IPs[0], s.Name))
		}
		want := "AddedInterface: " + strings.Join(added, "; ")
		f.Eventually(2*time.Minute, func(ctx context.Context) error {
			if events := f.Events(ctx, f.NS, "one"); !slices.Contains(events, want) {
				return fmt.Errorf("no event %q in %q", want, events)
			}
			return nil
		})
	})
	t.Run("addresses are free after the pods are gone", func(t *testing.T) {
		leased := func() string {
			return f.sh("ls /var/lib/cni/networks/macvlan-conf /var/lib/cni/networks/storage | grep ^10 || true")
		}
		if n := len(strings.Fields(leased())); n != 4 {
			t.Errorf("%d addresses are leased, want 4", n)
		}
		f.Must(f.DeletePod(f.Ctx, f.NS, "one"))
		f.Must(f.DeletePod(f.Ctx, f.NS, "two"))
		if left := leased(); left != "" {
			t.Errorf("addresses still leased: %s", left)
		}
	})
}

// TestOrderOverTwoClaims checks that a pod with two claims and three networks keeps their
// order and names.
func TestOrderOverTwoClaims(t *testing.T) {
	f := setup(t, "order")
	for i, subnet := range []string{"10.61.1.0/24", "10.61.2.0/24", "10.61.3.0/24"} {
		f.bridge(fmt.Sprintf("br-o%d", i))
		f.nad(fmt.Sprintf("net-%d", i), fmt.Sprintf(`{"cniVersion":"1.0.0","type":"bridge","bridge":"br-o%d","ipam":{"type":"host-local","subnet":%q}}`, i, subnet))
	}
	// The names are not in the order of the requests.
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "a", lab.Want{Network: "net-2"}, lab.Want{Network: "net-0", Config: map[string]any{"interface": "data0"}})))
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "b", lab.Want{Network: "net-1"})))
	pod := lab.Pod(f.NS, "three", "a")
	second := "b"
	pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "more", ResourceClaimTemplateName: &second})
	_, err := f.CreatePod(f.Ctx, pod)
	f.Must(err)
	ready, err := f.Ready(f.Ctx, f.NS, "three", time.Minute)
	f.Must(err)
	var got []string
	for _, s := range f.statuses(ready)[1:] {
		got = append(got, s.Interface+" "+s.Name)
	}
	want := []string{"net1 order/net-2", "data0 order/net-0", "net3 order/net-1"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("attachments (-want +got):\n%s", diff)
	}
	out, err := f.Exec(f.Ctx, f.NS, "three", "ip", "-o", "-4", "addr")
	f.Must(err)
	for ifName, subnet := range map[string]string{"net1": `10\.61\.3`, "data0": `10\.61\.1`, "net3": `10\.61\.2`} {
		if !regexp.MustCompile(ifName + ` +inet ` + subnet + `\.\d+/24`).MatchString(out) {
			t.Errorf("%s has no address in %s:\n%s", ifName, subnet, out)
		}
	}
}

// TestSameNetworkTwice checks that a NAD that a pod requests twice gives it two interfaces
// (behaviour A2-26).
func TestSameNetworkTwice(t *testing.T) {
	f := setup(t, "twice")
	f.master("lan1")
	f.nad("blue", strings.NewReplacer("lan0", "lan1", "10.50.", "10.51.").Replace(macvlanConf))
	pod := f.start("both", lab.Want{Network: "blue"}, lab.Want{Network: "blue"})
	s := f.statuses(pod)
	if len(s) != 3 || s[1].Interface != "net1" || s[2].Interface != "net2" || s[1].IPs[0] == s[2].IPs[0] || s[1].Mac == s[2].Mac {
		t.Errorf("network-status %+v", s)
	}
}

// TestRequestedValues checks that the plugins get the fields of a claim.
func TestRequestedValues(t *testing.T) {
	f := setup(t, "values")
	f.master("lan2")
	f.nad("static", `{"cniVersion":"0.3.1","name":"static","plugins":[
		{"type":"macvlan","master":"lan2","mode":"bridge","capabilities":{"ips":true},"ipam":{"type":"static"}},
		{"type":"tuning","capabilities":{"mac":true}}]}`)
	pod := f.start("asks", lab.Want{Network: "static", Config: map[string]any{
		"interface": "sig0", "ips": []string{"10.70.0.7/24", "fd00:70::7/64"}, "mac": "02:00:00:00:70:07",
	}})
	out, err := f.Exec(f.Ctx, f.NS, "asks", "ip", "addr", "show", "sig0")
	f.Must(err)
	for _, want := range []string{"10.70.0.7/24", "fd00:70::7/64", "02:00:00:00:70:07"} {
		if !strings.Contains(out, want) {
			t.Errorf("sig0 lacks %s:\n%s", want, out)
		}
	}
	if s := f.status(pod, "values/static"); s.Mac != "02:00:00:00:70:07" || len(s.IPs) != 2 {
		t.Errorf("network-status %+v", s)
	}
}

// TestBurst creates twenty pods at once, each of which must get an address of its own.
func TestBurst(t *testing.T) {
	f := setup(t, "burst")
	f.master("lan3")
	f.nad("blue", strings.NewReplacer("lan0", "lan3", "10.50.", "10.53.").Replace(macvlanConf))
	f.Must(f.CreateTemplate(f.Ctx, lab.Template(f.NS, "blue", lab.Want{Network: "blue"})))
	const pods = 20
	for i := range pods {
		_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, fmt.Sprintf("p%02d", i), "blue"))
		f.Must(err)
	}
	seen := map[string]string{}
	for i := range pods {
		name := fmt.Sprintf("p%02d", i)
		// In a burst the node authorizer sometimes refuses the kubelet's read of a claim,
		// which costs that pod a sync interval.
		pod, err := f.Ready(f.Ctx, f.NS, name, 4*time.Minute)
		f.Must(err)
		ip := f.status(pod, "burst/blue").IPs[0]
		if other, taken := seen[ip]; taken {
			t.Errorf("%s and %s both have %s", other, name, ip)
		}
		seen[ip] = name
	}
}

// TestStatusOfParametersInAnyForm checks that a claim gets a status also if its parameters
// have an unusual order and form of numbers, although the API server's apply would change
// the bytes of the allocation.
func TestStatusOfParametersInAnyForm(t *testing.T) {
	f := setup(t, "forms")
	f.bridge("br-e2e")
	f.nad("blue", `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-e2e","ipam":{}}`)
	f.Must(f.Published(f.Ctx, "forms/blue"))
	template := lab.Template(f.NS, "odd", lab.Want{Network: "blue", Config: map[string]any{"interface": "x0"}})
	template.Spec.Spec.Devices.Config[0].Opaque.Parameters.Raw = []byte(
		`{"kind":"AttachmentConfig","interface":"x0","cniArgs":{"z":1.0,"a":"<&>"},"network":{"name":"blue"},"apiVersion":"nadra.dev/v1alpha1"}`)
	f.Must(f.CreateTemplate(f.Ctx, template))
	_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "odd", "odd"))
	f.Must(err)
	pod, err := f.Ready(f.Ctx, f.NS, "odd", time.Minute)
	f.Must(err)
	f.claimWhen(pod, func(c *resourceapi.ResourceClaim) error {
		if len(c.Status.Devices) != 1 || c.Status.Devices[0].NetworkData.InterfaceName != "x0" {
			return fmt.Errorf("status.devices %+v", c.Status.Devices)
		}
		return nil
	})
}

// statuses waits for the pod's network-status and returns it.
func (f *fixture) statuses(pod *corev1.Pod) []nadv1.NetworkStatus {
	f.Helper()
	out, err := f.NetworkStatus(f.Ctx, pod.Namespace, pod.Name)
	f.Must(err)
	return out
}

// status returns the pod's status on one network.
func (f *fixture) status(pod *corev1.Pod, network string) nadv1.NetworkStatus {
	f.Helper()
	all := f.statuses(pod)
	i := slices.IndexFunc(all, func(s nadv1.NetworkStatus) bool { return s.Name == network })
	if i < 0 {
		f.Fatalf("pod %s has no status on %s: %+v", pod.Name, network, all)
	}
	return all[i]
}

// claimWhen waits until the pod's claim satisfies ok, which is about its status.devices. If the
// API server does not store them, the claim must have none.
func (f *fixture) claimWhen(pod *corev1.Pod, ok func(*resourceapi.ResourceClaim) error) *resourceapi.ResourceClaim {
	f.Helper()
	on, err := storesDeviceStatus()
	f.Must(err)
	if !on {
		f.Log("DRAResourceClaimDeviceStatus is off: the claim must have no status.devices")
		ok = func(c *resourceapi.ResourceClaim) error {
			if len(c.Status.Devices) > 0 {
				return fmt.Errorf("status.devices %+v", c.Status.Devices)
			}
			return nil
		}
	}
	claim, err := f.ClaimWhen(f.Ctx, pod, ok)
	f.Must(err)
	return claim
}

// TestNetworkOfAFile checks that a NAD without a configuration uses the file with its name
// on the node.
func TestNetworkOfAFile(t *testing.T) {
	f := setup(t, "filed")
	f.bridge("br-filed")
	path := f.at.NADConfig + "/10-filed.conf"
	f.Must(lab.WriteHostFile(f.node, path, []byte(`{"cniVersion":"1.0.0","name":"filed","type":"bridge","bridge":"br-filed",`+
		`"ipam":{"type":"host-local","subnet":"10.76.0.0/24"}}`), 0o644))
	f.undo = append(f.undo, "rm -r "+filepath.Dir(f.at.NADConfig))
	f.nad("filed", "")
	f.start("web", lab.Want{Network: "filed"})
	out, err := f.Exec(f.Ctx, f.NS, "web", "ip", "addr", "show", "net1")
	f.Must(err)
	if !strings.Contains(out, "10.76.0.") {
		t.Errorf("net1:\n%s", out)
	}
	f.Must(f.DeletePod(f.Ctx, f.NS, "web"))
}
