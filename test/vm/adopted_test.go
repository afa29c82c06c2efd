//go:build e2e

package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

const (
	ofADevicePlugin = "a VF of a device plugin, attached by Multus"
	isAdopted       = "is adopted: the pod keeps it, and it is not offered"
	isOffered       = "goes back when the pod ends, and is offered"
	adoptedLeft     = "nothing of Multus is left"
)

// adoptable is the resource of the functions that a device plugin offers.
const adoptable = "adoptable"

// TestAdoptedFunctions has the guest's runtime call the real Multus, which attaches a virtual function that a
// device plugin has given to the pod. nadra adopts the pod, and ends it.
func TestAdoptedFunctions(t *testing.T) {
	for _, m := range movers() {
		t.Run(m.name, func(t *testing.T) {
			if m.name != "sriov" || haveSRIOV(t, ofADevicePlugin, isAdopted, isOffered, adoptedLeft) {
				testAdopted(t, m.name)
			}
		})
	}
}

func testAdopted(t *testing.T, plugin string) {
	functions := []string{function(t, "pf0v2"), function(t, "pf0v3")}
	f := scenario(t, "adopted-"+plugin)
	f.pools(map[string][]string{adoptable: {"pf0#2-3"}}, nil)
	f.installMultus()
	f.servesLabelledNodes()
	f.offersByDevicePlugin(functions)
	conf := object{"type": plugin, "ipam": f.hostLocal()}
	if plugin == "sriov" {
		conf["mac"], conf["trust"], conf["spoofchk"], conf["vlan"] = podMAC, "on", "off", 100
	}
	f.poolNAD("one", "intel.com/"+adoptable, conf)
	f.start(dpdk(f.ns, "a", "intel.com/"+adoptable, 1, "one"))
	pod, inPod := f.ready("a")
	free := f.inTheGuest(functions)

	testCase(t, ofADevicePlugin, func(t *testing.T) {
		link := requireLink(t, inPod, "net1", "device", "")
		if len(free) != 1 || len(f.listed(multusDir)) == 0 {
			t.Fatalf("the guest still has %v, and Multus has the files %v", free, f.listed(multusDir))
		}
		if plugin == "sriov" && link.MAC != podMAC {
			t.Errorf("its MAC is %s, not %s", link.MAC, podMAC)
		}
	})
	if t.Failed() {
		return
	}
	testCase(t, isAdopted, func(t *testing.T) {
		f.shell("rm " + multusConf)
		f.must(f.labelOwner("nadra.dev/owner=nadra"))
		f.eventually(t, func(ctx context.Context) error {
			if left := f.listed(multusDir); len(left) > 0 {
				return fmt.Errorf("Multus still has the sandboxes %v", left)
			}
			return f.isOffering(ctx, free)
		})
		f.stopDevicePlugin() // the pod keeps its device
		f.must(f.WaitDriver(f.ctx))
		now, err := f.Guest.PodNet(f.ctx, pod)
		f.must(err)
		if diff := cmp.Diff(inPod, now); diff != "" {
			t.Errorf("the pod's namespace has changed (-before +now):\n%s", diff)
		}
		f.must(f.isOffering(f.ctx, free))
	})
	testCase(t, isOffered, func(t *testing.T) {
		f.leavesNothing(t)
		f.eventually(t, func(ctx context.Context) error { return f.isOffering(ctx, functions) })
	})
	testCase(t, adoptedLeft, func(t *testing.T) {
		f.eventually(t, func(context.Context) error {
			if left := f.shell("find " + multusDir + " -type f"); left != "" {
				return fmt.Errorf("left of Multus: %s", left)
			}
			return nil
		})
	})
}

// inTheGuest returns those of some functions whose interface is in the guest's own namespace.
func (f *fixture) inTheGuest(functions []string) (out []string) {
	f.Helper()
	host, err := f.Guest.Net(f.ctx)
	f.must(err)
	for _, id := range functions {
		if slices.ContainsFunc(host.Links, func(l wire.Link) bool { return l.Bus == id }) {
			out = append(out, id)
		}
	}
	return out
}

const (
	multusDir  = "/var/lib/cni/multus"
	multusConf = "/etc/cni/net.d/00-multus.conf"
)

// eventually waits until a check succeeds.
func (f *fixture) eventually(t testing.TB, check func(context.Context) error) {
	t.Helper()
	if err := lab.Eventually(f.ctx, leftoverLimit, check); err != nil {
		t.Fatal(err)
	}
}

// installMultus makes the guest's runtime call Multus for the scenario, before any other pod is started.
func (f *fixture) installMultus() {
	f.Helper()
	files, err := f.Guest.MultusFiles()
	f.must(err)
	for path, content := range files {
		f.undo = append(f.undo, "rm -f "+path)
		f.write(path, content)
	}
	f.undo = append(f.undo, "rm -rf "+multusDir)
}

// write writes a file of the guest.
func (f *fixture) write(path string, content []byte) {
	f.Helper()
	_, err := f.Guest.run(f.ctx, wire.Command{Argv: []string{"sh", "-c", "cat >" + path + ".next && busybox mv " + path + ".next " + path}, Stdin: content})
	f.must(err)
}

// servesLabelledNodes has nadra serve nodes with its label only, for the scenario. The guest has none.
func (f *fixture) servesLabelledNodes() {
	f.Helper()
	remove, err := lab.AddDriverArgs(f.ctx, f.Lab, "--owned-nodes=labelled")
	f.Cleanup(func() {
		if remove == nil {
			return
		}
		ctx := context.WithoutCancel(f.ctx)
		if err := remove(ctx); err != nil {
			f.Error(err)
		}
		if err := f.labelOwner("nadra.dev/owner-"); err != nil {
			f.Error(err)
		}
		if err := f.WaitDriver(ctx); err != nil {
			f.Error(err)
		}
	})
	f.must(err)
}

func (f *fixture) labelOwner(label string) error {
	_, err := f.Cluster.Kubectl(context.WithoutCancel(f.ctx), "label", "node", f.Guest.Name(), label)
	return err
}

// offersByDevicePlugin runs a device plugin, for the scenario, and waits until the node has its devices: the
// SR-IOV device plugin if there is one, with the configuration that nadra has, and otherwise the lane's own.
func (f *fixture) offersByDevicePlugin(functions []string) {
	f.Helper()
	resource := "intel.com/" + adoptable
	argv := append([]string{"deviceplugin", resource}, functions...)
	if os.Getenv(DevicePluginVariable) != "" {
		config, err := json.Marshal(object{"resourceList": []object{{"resourceName": adoptable, "selectors": object{"pfNames": []string{"pf0#2-3"}}}}})
		f.must(err)
		f.shell("busybox mkdir -p /etc/pcidp /usr/share/misc")
		f.write("/etc/pcidp/config.json", config)
		f.write("/usr/share/misc/pci.ids", []byte(pciIDs))
		argv = []string{"sriovdp", "-v", "5", "-logtostderr"}
	}
	f.undo = append(f.undo, killScript("deviceplugin"), killScript("sriovdp"))
	f.must(f.Guest.Daemon(f.ctx, "/var/log/deviceplugin.log", argv...))
	f.eventually(f, func(ctx context.Context) error {
		node, err := f.Kube.CoreV1().Nodes().Get(ctx, f.Guest.Name(), metav1.GetOptions{})
		if err != nil {
			return err
		}
		for name, quantity := range node.Status.Allocatable {
			if string(name) == resource && quantity.Value() == int64(len(functions)) {
				return nil
			}
		}
		return fmt.Errorf("the node has not %d of %s; last in the plugin's log:\n%s", len(functions), resource, f.shell("tail -n 5 /var/log/deviceplugin.log"))
	})
}

// pciIDs names the guest's cards. The SR-IOV device plugin does not run without such a file.
const pciIDs = "8086  Intel Corporation\n\t10ca  82576 Virtual Function\nC 02  Network controller\n\t00  Ethernet controller\n"

// stopDevicePlugin ends the device plugin.
func (f *fixture) stopDevicePlugin() {
	f.Helper()
	f.shell(killScript("deviceplugin"))
	f.shell(killScript("sriovdp"))
}

// killScript returns a script that ends the guest's processes of a program.
func killScript(program string) string {
	return `for p in /proc/[0-9]*; do [ "$(cat $p/comm 2>/dev/null)" = ` + program + ` ] && kill $(basename $p); done; true`
}

// isOffering returns an error unless nadra publishes these functions of the device plugin's resource.
func (f *fixture) isOffering(ctx context.Context, want []string) error {
	list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	if err != nil {
		return err
	}
	var have []string
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			if ptr.Deref(d.Attributes[attachment.AttributeResourceName].StringValue, "") == "intel.com/"+adoptable {
				have = append(have, ptr.Deref(d.Attributes[attachment.AttributeDeviceID].StringValue, ""))
			}
		}
	}
	if !sameElements(have, want) {
		return fmt.Errorf("offered are %s, want %s", strings.Join(have, " "), strings.Join(want, " "))
	}
	return nil
}
