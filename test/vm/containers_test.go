//go:build e2e

package vm

import (
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// in runs a shell script in a pod's container.
func (f *fixture) in(t *testing.T, pod, script string) string {
	t.Helper()
	out, err := f.Exec(f.ctx, f.ns, pod, "sh", "-c", script)
	if err != nil {
		t.Fatalf("%s: %v", script, err)
	}
	return out
}

// TestContainersGetTheirDevices checks that containers get the device files of exactly
// their own functions, and the variables of the device plugin.
func TestContainersGetTheirDevices(t *testing.T) {
	f := scenario(t, "files")
	f.pools(map[string][]string{"rdma": {"pf0#0-1"}}, withRDMA)
	f.poolNAD("rdma", "intel.com/rdma", object{"type": "host-device", "ipam": f.hostLocal()}, object{"type": "rdma"})
	f.createOf("a", "rdma")
	f.createOf("b", "rdma")
	f.nad("plain", object{"type": "dummy", "ipam": static("10.43.0.1/24")})
	f.create("c", "plain")
	f.ready("a")
	f.ready("b")
	testCase(t, "a network without a pool beside pools", func(*testing.T) { f.ready("c") })
	testCase(t, "containers get the RDMA files of exactly their own VF", func(t *testing.T) {
		files := map[string]string{}
		for _, pod := range []string{"a", "b"} {
			listed := strings.Fields(f.in(t, pod, "ls /dev/infiniband"))
			verbs := slices.DeleteFunc(slices.Clone(listed), func(name string) bool { return !strings.HasPrefix(name, "uverbs") })
			if len(verbs) != 1 || !slices.Contains(listed, "rdma_cm") {
				t.Errorf("pod %s has /dev/infiniband: %v", pod, listed)
				continue
			}
			files[verbs[0]] = pod
		}
		if len(files) != 2 {
			t.Errorf("the two pods have %v between them", files)
		}
	})
	testCase(t, "containers get the device plugin's variables", func(t *testing.T) {
		env := f.in(t, "a", "env")
		address := f.functionOf(t, "a")
		for _, want := range []string{"PCIDEVICE_INTEL_COM_RDMA=" + address + "\n", `PCIDEVICE_INTEL_COM_RDMA_INFO={"` + address + `":{`, `"rdma_dev":"rxe0`} {
			if !strings.Contains(env, want) {
				t.Errorf("the environment lacks %s:\n%s", want, env)
			}
		}
	})
	testCase(t, "containers get metadata of their devices (KEP-5304)", func(t *testing.T) {
		const file = "/var/run/kubernetes.io/dra-device-attributes/resourceclaimtemplates/networks/net1/net.nadra.dev-metadata.json"
		printed := f.in(t, "a", "cat "+file)
		for _, want := range []string{`"` + f.functionOf(t, "a") + `"`, `"interfaceName":"net1"`, `"10.42.0.`} {
			if !strings.Contains(strings.ReplaceAll(printed, " ", ""), want) {
				t.Errorf("the file lacks %s:\n%s", want, printed)
			}
		}
		// KubeVirt 1.9 reads the older version only.
		if version := `"metadata.resource.k8s.io/v1alpha1"`; !strings.Contains(printed, version) {
			t.Errorf("the file has not version %s:\n%s", version, printed)
		}
	})
	testCase(t, "RDMA devices and VFs go back", f.leavesNothing)
}

// TestUserSpaceDevice runs a pod without a network that requests a function with a driver
// for user space as an extended resource, as DPDK applications do.
func TestUserSpaceDevice(t *testing.T) {
	const link = "pf1v2"
	address := function(t, link)
	f := scenario(t, "dpdk", preparation{
		do:   bindScript(address, "vfio-pci"),
		undo: bindScript(address, "igbvf") + "\n" + nameScript(address, link),
	})
	f.pools(map[string][]string{"dpdk": {"pf1#2"}}, nil)
	f.classOfPool("intel.com/dpdk", translate.PoolDevices("intel.com/dpdk"))
	f.start(dpdk(f.ns, "a", "intel.com/dpdk", 1, ""))
	f.ready("a")
	testCase(t, "an extended resource brings a VFIO device without a network", func(t *testing.T) {
		group := strings.TrimSpace(f.shell("basename $(readlink /sys/bus/pci/devices/" + address + "/iommu_group)"))
		if listed := strings.Fields(f.in(t, "a", "ls /dev/vfio")); !slices.Contains(listed, group) || !slices.Contains(listed, "vfio") {
			t.Errorf("/dev/vfio has %v, and the IOMMU group is %s", listed, group)
		}
		if env := f.in(t, "a", "env"); !strings.Contains(env, "PCIDEVICE_INTEL_COM_DPDK="+address+"\n") || !strings.Contains(env, `"dev-mount":"/dev/vfio/`+group) {
			t.Errorf("the environment:\n%s", env)
		}
	})
	testCase(t, "and the device is free again", f.leavesNothing)
}

// TestExtendedResourceWithAnnotation runs an unconverted pod, whose resources and
// annotation nadra must pair.
func TestExtendedResourceWithAnnotation(t *testing.T) {
	want := []string{function(t, "pf0v2"), function(t, "pf0v3")}
	f := scenario(t, "paired")
	f.pools(map[string][]string{"paired": {"pf0#2-3"}}, nil)
	f.classOfPool("intel.com/paired", translate.PoolDevices("intel.com/paired"))
	f.poolNAD("one", "intel.com/paired", object{"type": "host-device", "ipam": f.hostLocal()})
	f.start(dpdk(f.ns, "a", "intel.com/paired", 2, "one@data,one@more"))
	_, seen := f.ready("a")
	testCase(t, "an unchanged pod's resources and annotation are paired", func(t *testing.T) {
		for _, name := range []string{"data", "more"} {
			if seen.Link(name) == nil {
				t.Errorf("the pod has no interface %s: %+v", name, seen.Links)
			}
		}
		both := strings.Split(strings.TrimSpace(f.in(t, "a", "echo $PCIDEVICE_INTEL_COM_PAIRED")), ",")
		slices.Sort(both)
		if !slices.Equal(both, want) {
			t.Errorf("the container's variables have %v, want %v", both, want)
		}
	})
	testCase(t, "and go back", f.leavesNothing)
}
