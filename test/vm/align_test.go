//go:build e2e

package vm

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
	"github.com/nadra-dev/nadra/test/vm/wire"
)

// The drivers of CPUs and GPUs. Their devices have the attributes that the drivers of such devices publish, and do
// nothing.
const (
	cpuDriver, gpuDriver = "cpu.example.com", "gpu.example.com"
	numaNode             = deviceattribute.StandardDeviceAttributeNUMANode
	pcieRoot             = deviceattribute.StandardDeviceAttributePCIeRoot
	// perNode is how many devices of each kind are on a NUMA node.
	perNode = VFs
	// alignable is the resource with all virtual functions.
	alignable = "intel.com/any"
)

// kinds are the prefixes of the devices' names, and the names of their requests.
var kinds = []string{"cpu", "gpu", "pci"}

// TestAligned requests CPUs, virtual functions of a pool, and GPUs, of three drivers, in one claim.
func TestAligned(t *testing.T) {
	f := scenario(t, "aligned")
	all := f.threeDrivers(t)
	for _, kind := range kinds {
		f.claims(kind, "", "", kind)
	}
	f.claims("free", "", "", kinds...)

	f.simulate(t)
	var split, splitFree int
	testCase(t, "CPU, VF and GPU of 100 claims on one NUMA node each", func(t *testing.T) {
		if split = f.comeAndGo(t, all, "aligned"); split > 0 {
			t.Errorf("%d of %d are on two nodes", split, comingPods)
		}
	})
	testCase(t, "without the constraint some are on two", func(t *testing.T) {
		if splitFree = f.comeAndGo(t, all, "free"); splitFree == 0 {
			t.Error("none is: the pods come and go so that the constraint decides nothing")
		}
	})
	fmt.Printf("vm-numa: aligned=%d split=%d unaligned=%d split=%d\n", comingPods, split, comingPods, splitFree)

	f.forget()

	host, err := f.Guest.Net(f.ctx)
	f.must(err)
	seen := map[string]string{}
	var pods []string
	for _, node := range []string{"0", "1"} {
		onNode := `device.attributes["resource.kubernetes.io"].numaNode == ` + node
		f.claims("aligned-"+node, numaNode, onNode, kinds...)
		f.claims("beside-"+node, pcieRoot, onNode, "gpu", "pci")
		pods = append(pods, "aligned-"+node, "beside-"+node)
	}
	for _, name := range pods {
		f.start(lab.Pod(f.ns, name, name))
	}
	given := f.allocated(t, pods...)
	for _, name := range pods {
		_, inPod := f.ready(name)
		mac := requireLink(t, inPod, "vf", "device", "").MAC
		i := slices.IndexFunc(host.Links, func(l wire.Link) bool { return l.MAC == mac })
		if i < 0 {
			t.Fatalf("pod %s has %+v, which is no VF of the guest", name, inPod.Links)
		}
		seen[name] = strings.TrimSpace(f.shell("cat /sys/bus/pci/devices/" + host.Links[i].Bus + "/numa_node"))
	}
	for _, c := range []struct {
		name, pods string
		attribute  resourceapi.QualifiedName
		devices    int
	}{
		{"CPU, VF and GPU of running pods on one NUMA node each", "aligned-", numaNode, len(kinds)},
		{"a VF on the PCIe root of another driver's device", "beside-", pcieRoot, 2},
	} {
		testCase(t, c.name, func(t *testing.T) {
			for _, node := range []string{"0", "1"} {
				name := c.pods + node
				if values := all.values(c.attribute, given[name]); len(given[name]) != c.devices || len(values) != 1 || seen[name] != node {
					t.Errorf("pod %s has %v, with %s %v, and the VF that it sees is on the NUMA node %s, want %s", name, given[name], c.attribute, values, seen[name], node)
				}
			}
		})
	}
	testCase(t, "and they go back", f.leavesNothing)
}

// threeDrivers lets three drivers publish devices, waits for these, and creates a template of claims with a device of each
// driver, on one NUMA node.
func (f *fixture) threeDrivers(t testing.TB) placement {
	t.Helper()
	f.pools(map[string][]string{"any": {"pf0", "pf1"}}, nil)
	f.poolNAD("any", alignable, object{"type": "host-device", "ipam": f.hostLocal()})
	var cpus, gpus []string
	for i := range 2 * perNode {
		node := i / perNode
		cpus = append(cpus, fmt.Sprintf("cpu-%d,%s=%d", i, numaNode, node))
		gpus = append(gpus, fmt.Sprintf("gpu-%d,%s=%d,%s=pci0000:%d0", i, numaNode, node, pcieRoot, 2*(node+1)))
	}
	f.otherDriver(cpuDriver, cpus...)
	f.otherDriver(gpuDriver, gpus...)
	f.claims("aligned", numaNode, "", kinds...)
	return f.placed(t)
}

// placement has the attributes of devices, by driver and name.
type placement map[string]map[resourceapi.QualifiedName]resourceapi.DeviceAttribute

// values returns the different values that devices have of an attribute, sorted.
func (p placement) values(name resourceapi.QualifiedName, devices []string) (out []string) {
	for _, device := range devices {
		a := p[device][name]
		if a.IntValue != nil {
			out = append(out, fmt.Sprint(*a.IntValue))
		} else {
			out = append(out, ptr.Deref(a.StringValue, "none"))
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// placed waits until the three drivers have published all devices, and returns them.
func (f *fixture) placed(t testing.TB) placement {
	t.Helper()
	out := placement{}
	f.eventually(t, func(ctx context.Context) error {
		list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		clear(out)
		for _, s := range list.Items {
			for _, d := range s.Spec.Devices {
				if s.Spec.Driver == cpuDriver || s.Spec.Driver == gpuDriver || ptr.Deref(d.Attributes[attachment.AttributeResourceName].StringValue, "") == alignable {
					out[s.Spec.Driver+"/"+d.Name] = d.Attributes
				}
			}
		}
		if len(out) != 3*2*perNode {
			return fmt.Errorf("%d devices are published, want %d of each of three drivers", len(out), 2*perNode)
		}
		return nil
	})
	return out
}

// otherDriver runs another vendor's driver in the guest, for the scenario, and creates the class of its devices.
func (f *fixture) otherDriver(name string, devices ...string) {
	f.Helper()
	f.undo = append(f.undo, killScript("otherdriver"))
	argv := []string{"otherdriver", "/etc/kubernetes/kubeconfig", f.Guest.Name(), name}
	f.must(f.Guest.Daemon(f.ctx, "/var/log/"+name+".log", append(argv, devices...)...))
	f.class(&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", name)},
		}}},
	})
}

// claims creates a template of claims with a request for each kind of device. The devices must have the same value of
// an attribute, if that has a name, and an expression selects the first, if there is one.
func (f *fixture) claims(name string, match resourceapi.QualifiedName, first string, kinds ...string) {
	f.Helper()
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name}}
	classes := map[string]string{
		"cpu": cpuDriver, "gpu": gpuDriver, "pci": attachment.DeviceClassName(attachment.NetworkRef{Namespace: f.ns, Name: "any"}),
	}
	devices := &template.Spec.Spec.Devices
	for _, kind := range kinds {
		devices.Requests = append(devices.Requests, resourceapi.DeviceRequest{
			Name: kind, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: classes[kind]},
		})
	}
	if first != "" {
		devices.Requests[0].Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: first}}}
	}
	if match != "" {
		devices.Constraints = []resourceapi.DeviceConstraint{{MatchAttribute: ptr.To(resourceapi.FullyQualifiedName(match))}}
	}
	if slices.Contains(kinds, "pci") {
		devices.Config = []resourceapi.DeviceClaimConfiguration{{
			Requests: []string{"pci"},
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: lab.DriverName, Parameters: runtime.RawExtension{Raw: lab.Opaque(object{"interface": "vf"})},
			}},
		}}
	}
	f.must(f.CreateTemplate(f.ctx, template))
}

// allocated waits until pods have been allocated their devices, and returns these.
func (f *fixture) allocated(t *testing.T, pods ...string) map[string][]string {
	t.Helper()
	out := map[string][]string{}
	f.eventually(t, func(ctx context.Context) error {
		claims, err := f.Kube.ResourceV1().ResourceClaims(f.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		clear(out)
		for _, c := range claims.Items {
			if pod := c.OwnerReferences[0].Name; c.Status.Allocation != nil && slices.Contains(pods, pod) {
				for _, r := range c.Status.Allocation.Devices.Results {
					out[pod] = append(out[pod], r.Driver+"/"+r.Device)
				}
			}
		}
		if len(out) != len(pods) {
			return fmt.Errorf("of the pods %v only %v have devices", pods, out)
		}
		return nil
	})
	return out
}

// remove deletes pods that have not started, and waits until their devices are free.
func (f *fixture) remove(t *testing.T, pods ...string) {
	t.Helper()
	for _, name := range pods {
		f.must(f.Kube.CoreV1().Pods(f.ns).Delete(f.ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	}
	f.eventually(t, func(ctx context.Context) error {
		claims, err := f.Kube.ResourceV1().ResourceClaims(f.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, c := range claims.Items {
			if slices.Contains(pods, c.OwnerReferences[0].Name) {
				return fmt.Errorf("claim %s of pod %s is left", c.Name, c.OwnerReferences[0].Name)
			}
		}
		return nil
	})
}
