//go:build e2e

package kubevirt

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// hashed matches the names that virt-controller gives to interfaces of launcher pods.
var hashed = regexp.MustCompile(`^pod[0-9a-f]{11}$`)

// TestOneNetwork runs a machine with a bridge binding: its launcher pod has the network under the name and with
// the MAC that virt-controller has asked for, and virt-controller sees it.
func TestOneNetwork(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-one", "lan", macvlan)
	const mac = "02:00:00:00:01:01"
	p := f.start("db", nic{name: "lan", network: "lan", mac: mac})
	name := f.podInterface("db", "lan")
	if !hashed.MatchString(name) {
		t.Errorf("virt-controller shows interface %q, want its own form of a name", name)
	}
	f.checkLauncher(p, name)
	if l := f.links(p)[name]; l.Info.Kind != "macvlan" || l.Address != mac {
		t.Errorf("interface %s is %+v, want a macvlan with MAC %s", name, l, mac)
	}
}

// TestTwoNetworks runs a machine with two interfaces in one network and one in a network of another plugin.
func TestTwoNetworks(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-two", "lan", macvlan, "br", `{"cniVersion": "1.0.0", "type": "bridge", "bridge": "br-vm-two"}`)
	p := f.start("db", nic{name: "a", network: "lan"}, nic{name: "b", network: "vm-two/lan"}, nic{name: "c", network: "br"})
	f.checkLauncher(p, f.podInterface("db", "a"), f.podInterface("db", "b"), f.podInterface("db", "c"))
}

// TestBindingPlugin runs a machine whose binding plugin has a network in KubeVirt's configuration. The plugin must
// get the arguments of the network's element.
func TestBindingPlugin(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-binding")
	f.create("db", nic{name: "default", binding: "lane"})
	f.runs("db")
	p := f.launcher("db")
	f.checkLauncher(p, "net1")
	n := f.NodeOf(p)
	out, err := n.Exec(f.Ctx, "sh", "-c", "grep -l "+string(p.UID)+" "+n.Layout().State+"/cni/results/* | xargs grep -o '\"config\":\"[^\"]*\"' | cut -d'\"' -f4 | base64 -d")
	f.Must(err)
	if want := `"logicNetworkName":"default"`; !strings.Contains(string(out), want) {
		t.Errorf("the plugin got %s, want %s in it", out, want)
	}
}

// TestSlowNetwork has a plugin that takes longer than both hooks. The containers of a launcher pod are never
// restarted, so they must not be refused.
func TestSlowNetwork(t *testing.T) {
	t.Parallel()
	for _, n := range theLab.Cluster.Nodes() {
		script := "#!/bin/sh\n[ \"$CNI_COMMAND\" = ADD ] && sleep 6\nexec /opt/cni/bin/macvlan\n"
		if _, err := n.Exec(interrupted, "sh", "-ec", "printf '%s' '"+script+"' > /opt/cni/bin/slow; chmod +x /opt/cni/bin/slow"); err != nil {
			t.Fatal(err)
		}
	}
	f := setup(t, "vm-slow", "slow", strings.ReplaceAll(macvlan, `"macvlan"`, `"slow"`))
	p := f.start("db", nic{name: "a", network: "slow"})
	f.checkLauncher(p, f.podInterface("db", "a"))
	if all := f.Kubectl("get", "pods", "-o", "name"); strings.Count(all, "virt-launcher-db") != 1 {
		t.Errorf("the machine has had pods %s, want one", all)
	}
}

// TestMigration migrates a machine to the other node. For a while both launcher pods run, each with a claim of its
// own and the same MAC and address. Then the source's network is freed.
func TestMigration(t *testing.T) {
	t.Parallel()
	static := `{"cniVersion": "1.0.0", "type": "macvlan", "master": "` + master + `", "ipam": {"type": "static", "addresses": [{"address": "10.77.0.5/24"}]}}`
	f := setup(t, "vm-migration", "lan", static)
	const mac = "02:00:00:00:02:01"
	before := f.start("db", nic{name: "lan", network: "lan", mac: mac})
	name := f.podInterface("db", "lan")
	f.ApplyYAML("{apiVersion: kubevirt.io/v1, kind: VirtualMachineInstanceMigration, metadata: {name: move}, spec: {vmiName: db}}")
	f.migrated("db", func(source, target string) {
		if source != before.Name {
			t.Errorf("the source is %s, want %s", source, before.Name)
		}
		s, d := f.pod(source), f.pod(target)
		if s.Spec.NodeName == d.Spec.NodeName {
			t.Errorf("both launcher pods are on node %s", s.Spec.NodeName)
		}
		claims := map[string]bool{}
		for _, p := range []*corev1.Pod{s, d} {
			f.checkLauncher(p, name)
			c, err := f.Claim(f.Ctx, p)
			f.Must(err)
			claims[c.Name] = true
			if l := f.links(p)[name]; l.Address != mac {
				t.Errorf("%s in pod %s has MAC %s, want %s", name, p.Name, l.Address, mac)
			}
			if out := f.inPod(p, "ip -4 addr show "+name); !strings.Contains(out, "10.77.0.5/24") {
				t.Errorf("%s in pod %s has not the network's address:\n%s", name, p.Name, out)
			}
		}
		if len(claims) != 2 {
			t.Errorf("the launcher pods have claims %v, want one each", claims)
		}
	})
	f.freed(before)
	f.checkLauncher(f.launcher("db"), name)
	if shown := f.podInterface("db", "lan"); shown != name {
		t.Errorf("virt-controller shows interface %s after the migration, want %s", shown, name)
	}
}

// TestHotplug plugs an interface into a running machine and unplugs it. virt-controller edits the annotation of the
// running launcher pod. In between, virt-handler's own code binds both interfaces to the guest.
func TestHotplug(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-hotplug", "lan", macvlan, "wan", macvlan)
	before := f.start("db", nic{name: "lan", network: "lan"})
	lan := f.podInterface("db", "lan")
	wan := f.plug("db", nic{name: "wan", network: "wan", mac: "02:00:00:00:03:01"})
	f.checkLauncher(f.launcher("db"), lan, wan)
	f.bind("db", before)
	f.edit("db", func(spec map[string]any) {
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		for _, item := range devices["interfaces"].([]any) {
			if i := item.(map[string]any); i["name"] == "wan" {
				i["state"] = "absent"
			}
		}
	})
	f.instance("db", "is told to unplug", func(i *unstructured.Unstructured) error {
		interfaces, _, _ := unstructured.NestedSlice(i.Object, "spec", "domain", "devices", "interfaces")
		if !slices.ContainsFunc(interfaces, func(i any) bool { return i.(map[string]any)["state"] == "absent" }) {
			return fmt.Errorf("interfaces are %v", interfaces)
		}
		return nil
	})
	f.unplugged("db", "wan")
	f.instance("db", "has one network", func(i *unstructured.Unstructured) error {
		if networks, _, _ := unstructured.NestedSlice(i.Object, "spec", "networks"); len(networks) != 2 {
			return fmt.Errorf("networks are %v", networks)
		}
		return nil
	})
	after := f.launcher("db")
	if links := f.links(after); links[lan].Name == "" || links[wan].Name != "" {
		t.Errorf("pod %s has interfaces %v, want %s and no %s", after.Name, links, lan, wan)
	}
	for _, e := range f.Events(f.Ctx, f.NS, after.Name) {
		if strings.HasPrefix(e, "FailedAddingInterface") || strings.HasPrefix(e, "FailedRemovingInterface") {
			t.Errorf("pod %s has event %s", after.Name, e)
		}
	}
	if after.UID != before.UID {
		t.Errorf("the machine has launcher pod %s, and had %s: it was not to move", after.Name, before.Name)
	}
}

// TestDefaultNetworks plugs an interface into a running machine in a namespace with a default network, which other pods
// get. With an interface net1 in its launcher pod, virt-controller would give the machine's interfaces other names.
func TestDefaultNetworks(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-default", "all", macvlan, "lan", macvlan, "wan", macvlan)
	f.Kubectl("label", "namespace", f.NS, "nadra.dev/default-networks=all")
	f.Eventually(waitLimit, func(ctx context.Context) error {
		out, err := f.Cluster.Kubectl(ctx, "-n", f.NS, "run", "try", "--image=none", "--dry-run=server", "-o", "jsonpath={.metadata.annotations}")
		if err == nil && !strings.Contains(out, f.NS+"/all") {
			err = fmt.Errorf("a new pod has annotations %s, without the default network", out)
		}
		return err
	})
	p := f.start("db", nic{name: "lan", network: "lan"})
	lan := f.podInterface("db", "lan")
	f.checkLauncher(p, lan)
	f.checkLauncher(f.launcher("db"), lan, f.plug("db", nic{name: "wan", network: "wan"}))
}

// plug adds an interface to a running machine, and returns the pod's when the guest has it.
func (f *fixture) plug(name string, n nic) string {
	f.Helper()
	iface, network := n.parts()
	f.edit(name, func(spec map[string]any) {
		devices := spec["domain"].(map[string]any)["devices"].(map[string]any)
		devices["interfaces"] = append(devices["interfaces"].([]any), iface)
		spec["networks"] = append(spec["networks"].([]any), network)
	})
	shown := f.podInterface(name, n.name)
	f.plugged(name, n.name)
	return shown
}

// TestSwap replaces the network of an interface of a running machine. virt-controller migrates the machine to
// a launcher pod with the other network.
func TestSwap(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-swap", "lan", macvlan, "br", `{"cniVersion": "1.0.0", "type": "bridge", "bridge": "br-vm-swap"}`)
	before := f.start("db", nic{name: "a", network: "lan"})
	name := f.podInterface("db", "a")
	f.edit("db", func(spec map[string]any) {
		spec["networks"].([]any)[1].(map[string]any)["multus"].(map[string]any)["networkName"] = "br"
	})
	f.migrated("db", func(source, target string) {
		for pod, kind := range map[string]string{source: "macvlan", target: "veth"} {
			if l := f.links(f.pod(pod))[name]; l.Info.Kind != kind {
				t.Errorf("%s in pod %s is %+v, want a %s", name, pod, l, kind)
			}
		}
	})
	f.freed(before)
	f.checkLauncher(f.launcher("db"), name)
}

// TestRefused creates machines that nadra cannot serve. The event of the instance, and the report of kubectl nadra
// scan, name the cause. A masquerade binding to such a network is refused by KubeVirt itself.
func TestRefused(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-refused", "lan", macvlan)
	f.ApplyYAML(`
apiVersion: k8s.cni.cncf.io/v1
kind: NetworkAttachmentDefinition
metadata: {name: tap, annotations: {k8s.v1.cni.cncf.io/resourceName: macvtap.network.kubevirt.io/lan0}}
spec: {config: '{"cniVersion": "1.0.0", "type": "macvtap"}'}`)
	f.create("served", nic{name: "default", binding: "masquerade"}, nic{name: "a", network: "lan"})
	f.create("primary", nic{name: "a", network: "lan", primary: true})
	f.create("macvtap", nic{name: "default", binding: "masquerade"}, nic{name: "a", network: "tap"})
	if err := f.tryCreate("masquerade", nic{name: "a", network: "lan", binding: "masquerade"}); err == nil || !strings.Contains(err.Error(), "asquerade") {
		t.Errorf("virt-api admits a masquerade binding to a network of Multus: %v", err)
	}
	wanted := map[string]translate.Code{"primary": translate.DefaultNetwork, "macvtap": translate.PoolUnserved}
	for name, code := range wanted {
		f.Eventually(waitLimit, func(ctx context.Context) error {
			events := strings.Join(f.Events(ctx, f.NS, name), "\n")
			if !strings.Contains(events, string(code)) {
				return fmt.Errorf("no event of machine %s names %s:\n%s", name, code, events)
			}
			return nil
		})
	}
	wanted["served"] = translate.VirtualMachineServed
	out, err := f.Nadra(f.Ctx, "scan", "-n", f.NS, "-o", "wide")
	f.Must(err)
	for name, code := range wanted {
		if !regexp.MustCompile(`(?m)^virtualmachines\S*/` + name + `: \w+ ` + string(code) + `:`).MatchString(out.Out) {
			t.Errorf("scan reports no %s for machine %s:\n%s%s", code, name, out.Out, out.Err)
		}
	}
}

// freed waits until a launcher pod has ended and its network is gone: the claim is nobody's, and its node has no
// record of it.
func (f *fixture) freed(p *corev1.Pod) {
	f.Helper()
	n := f.NodeOf(p)
	f.Eventually(waitLimit, func(ctx context.Context) error {
		out, err := n.Exec(ctx, "sh", "-c", "grep -ls "+string(p.UID)+" "+n.Layout().State+"/claims/* || true")
		if err != nil {
			return err
		}
		if left := strings.TrimSpace(string(out)); left != "" {
			return fmt.Errorf("%s still has %s of pod %s", n.Name(), left, p.Name)
		}
		claims, err := f.Kube.ResourceV1().ResourceClaims(f.NS).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, c := range claims.Items {
			for _, r := range c.Status.ReservedFor {
				if r.UID == p.UID {
					return fmt.Errorf("claim %s is still reserved for pod %s", c.Name, p.Name)
				}
			}
		}
		return nil
	})
}
