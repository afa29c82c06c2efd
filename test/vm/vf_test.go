//go:build e2e

package vm

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
)

// function returns the PCI address of a virtual function by the name that its
// interface has in the guest.
func function(t *testing.T, link string) string {
	t.Helper()
	seen, err := theLane.Guest.Net(interrupted)
	if err != nil {
		t.Fatal(err)
	}
	found := seen.Link(link)
	if found == nil || found.Bus == "" {
		t.Fatalf("the guest has no virtual function %s: %+v", link, seen.Links)
	}
	return found.Bus
}

// mover is a plugin that gives a pod a virtual function.
type mover struct {
	name string
	conf func(function string, ipam object) object
}

func movers() []mover {
	return []mover{
		{"host-device", func(function string, ipam object) object {
			return object{"type": "host-device", "pciBusID": function, "ipam": ipam}
		}},
		{"sriov", func(function string, ipam object) object {
			return object{"type": "sriov", "deviceID": function, "ipam": ipam}
		}},
	}
}

// haveSRIOV reports whether the guest has sriov-cni. Without it these cases count
// as not run.
func haveSRIOV(t *testing.T, cases ...string) bool {
	t.Helper()
	if os.Getenv(SRIOVVariable) != "" {
		return true
	}
	for _, name := range cases {
		testCase(t, name, func(t *testing.T) {
			t.Skipf("NOT RUN: sriov-cni is no Go module; %s names no built one", SRIOVVariable)
		})
	}
	return false
}

// TestVirtualFunctions moves virtual functions to pods: of two cards, of one card, and with
// their RDMA devices.
func TestVirtualFunctions(t *testing.T) {
	for _, m := range movers() {
		t.Run(m.name, func(t *testing.T) {
			if m.name != "sriov" || haveSRIOV(t, ofTwoCards, ofOneCard, withTheirRDMA, movedBack) {
				testMover(t, m)
			}
		})
	}
}

// The cases of each mover.
const (
	ofTwoCards    = "of two cards"
	ofOneCard     = "of one card"
	withTheirRDMA = "RDMA device"
	movedBack     = "leave nothing behind"
)

func testMover(t *testing.T, m mover) {
	f := scenario(t, "vf-"+m.name)
	rdma := func(function string) object { return object{"type": "rdma", "deviceID": function} }
	// pf0v0 and pf0v1 reach each other inside of their card, pf0v0 and pf1v0 over the hub.
	// Each of the two paths has a subnet.
	for link, addresses := range map[string][]string{
		"pf0v0": {"10.40.0.1/24", "10.41.0.1/24"}, "pf0v1": {"10.40.0.2/24"}, "pf1v0": {"10.41.0.2/24"},
	} {
		function := function(t, link)
		f.nad(link, m.conf(function, static(addresses...)), rdma(function))
	}
	f.create("a", "pf0v0")
	f.create("b", "pf0v1", "pf1v0")
	a, inA := f.ready("a")
	b, inB := f.ready("b")
	host, err := f.Guest.Net(f.ctx)
	f.must(err)

	testCase(t, ofTwoCards, func(t *testing.T) {
		requireLink(t, inA, "pf0v0", "device", "10.40.0.1/24")
		requireLink(t, inB, "pf1v0", "device", "10.41.0.2/24")
		if host.Link("pf0v0") != nil {
			t.Error("the guest has the virtual function, too")
		}
		f.ping(t, a, "pf0v0", "10.41.0.2")
	})
	testCase(t, ofOneCard, func(t *testing.T) {
		requireLink(t, inB, "pf0v1", "device", "10.40.0.2/24")
		f.ping(t, b, "pf0v1", "10.40.0.1")
	})
	testCase(t, withTheirRDMA, func(t *testing.T) {
		if want := []string{"rxe00"}; !slices.Equal(inA.RDMA, want) {
			t.Errorf("the pod has RDMA devices %v, not %v", inA.RDMA, want)
		}
		if want := []string{"rxe01", "rxe10"}; !slices.Equal(slices.Sorted(slices.Values(inB.RDMA)), want) {
			t.Errorf("the other pod has RDMA devices %v, not %v", inB.RDMA, want)
		}
		// In exclusive mode other namespaces do not see them.
		if want := []string{"rxe11"}; !slices.Equal(host.RDMA, want) {
			t.Errorf("the guest has RDMA devices %v, not %v", host.RDMA, want)
		}
	})
	testCase(t, movedBack, f.leavesNothing)
}

// TestVFIO moves a virtual function that is bound to a driver for user space, and so has no
// interface to move or to restore.
func TestVFIO(t *testing.T) {
	const link = "pf1v2"
	function := function(t, link)
	f := scenario(t, "vfio", preparation{
		do:   bindScript(function, "vfio-pci"),
		undo: bindScript(function, "igbvf") + "\n" + nameScript(function, link),
	})
	f.nad("userspace", object{"type": "host-device", "pciBusID": function})
	f.create("a", "userspace")
	_, inPod := f.ready("a")
	testCase(t, "VF with a driver for user space, no interface", func(t *testing.T) {
		if link := inPod.Link("userspace"); link != nil {
			t.Errorf("the pod has an interface: %+v", *link)
		}
		group := f.shell("basename $(readlink /sys/bus/pci/devices/" + function + "/iommu_group)")
		if found := f.shell("ls /dev/vfio"); !slices.Contains(strings.Fields(found), strings.TrimSpace(group)) {
			t.Errorf("/dev/vfio has %q, and not the function's IOMMU group %s", found, group)
		}
	})
	testCase(t, "VF with a driver for user space, leaves nothing behind", func(t *testing.T) {
		f.leavesNothing(t)
		driver := f.shell("basename $(readlink /sys/bus/pci/devices/" + function + "/driver)")
		if strings.TrimSpace(driver) != "vfio-pci" {
			t.Errorf("its driver is %s afterwards", driver)
		}
	})
}

// bindScript returns a script that binds a function to a driver.
func bindScript(function, driver string) string {
	return fmt.Sprintf(`cd /sys/bus/pci/devices/%[1]s
echo %[1]s >driver/unbind
echo %[2]s >driver_override
echo %[1]s >/sys/bus/pci/drivers_probe
[ "$(basename $(readlink driver))" = %[2]s ]`, function, driver)
}

// nameScript returns a script that renames the only interface of a function.
func nameScript(function, name string) string {
	return fmt.Sprintf("ip link set $(ls /sys/bus/pci/devices/%s/net) name %s", function, name)
}
