package hwdevices

import (
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// init keeps the tests off the process' first thread, where only TestMain runs: a
// thread that enters a namespace is never used again, but the first one cannot
// end, and /proc/self would show its namespace from then on.
func init() { runtime.LockOSThread() }

// inOwnNetwork runs the test's thread in a network namespace of its own, which ends with
// the test. It needs the right to make one.
func inOwnNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread() // and never unlocked: nobody else gets this thread
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		if os.Getenv("NADRA_LANE") == "ci" {
			t.Fatalf("making a network namespace: %v", err)
		}
		t.Skipf("needs the right to make a network namespace: %v", err)
	}
}

const vfAddress = "0000:01:10.0"

// returnedLink makes an interface as the kernel gives one back, in a sysfs in
// which it is that of function vfAddress.
func returnedLink(t *testing.T, name, mac string, altNames ...string) Restorer {
	t.Helper()
	l := &netlink.Veth{LinkAttrs: netlink.NewLinkAttrs(), PeerName: "peer"}
	l.Name = name
	if err := netlink.LinkAdd(l); err != nil {
		t.Fatal(err)
	}
	made, err := netlink.LinkByName(name)
	if err != nil {
		t.Fatal(err)
	}
	if err := netlink.LinkSetHardwareAddr(made, parseMAC(t, mac)); err != nil {
		t.Fatal(err)
	}
	for _, alt := range altNames {
		if err := netlink.LinkAddAltName(made, alt); err != nil {
			t.Fatal(err)
		}
	}
	if err := netlink.LinkSetUp(made); err != nil {
		t.Fatal(err)
	}
	h := Restorer{sys: t.TempDir()}
	folder := filepath.Join(h.sys, "bus", "pci", "devices", vfAddress)
	if err := os.MkdirAll(filepath.Join(folder, "net", name), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("../../../../bus/pci/drivers/igbvf", filepath.Join(folder, "driver")); err != nil {
		t.Fatal(err)
	}
	return h
}

func function(name, mac string) attachment.Hardware {
	return attachment.Hardware{ID: vfAddress, PCIAddress: vfAddress, Original: &attachment.OriginalState{Interface: name, MAC: mac, Driver: "igbvf"}}
}

// TestFunctionsAreRestored checks that an interface which the kernel returns with the
// pod's name gets its own name again, also if that is an alternative name of the interface
// already.
func TestFunctionsAreRestored(t *testing.T) {
	const home, pods = "52:54:00:11:00:01", "02:00:00:00:00:01"
	for _, tt := range []struct {
		name, link, mac string
		altNames        []string
	}{
		{"as it was", "ens1v0", home, nil},
		{"the pod's name", "net1", home, nil},
		{"the pod's MAC", "ens1v0", pods, nil},
		{"both, and its own name is a further one", "net1", pods, []string{"ens1v0"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			inOwnNetwork(t)
			h := returnedLink(t, tt.link, tt.mac, tt.altNames...)
			if err := h.Restore(function("ens1v0", home)); err != nil {
				t.Fatal(err)
			}
			l, err := netlink.LinkByName("ens1v0")
			if err != nil {
				t.Fatal(err)
			}
			if got := l.Attrs(); got.Name != "ens1v0" || got.HardwareAddr.String() != home {
				t.Errorf("it is %s with %s", got.Name, got.HardwareAddr)
			}
		})
	}
}

// TestAdministratorsAddressStays checks an administrator's address that the function has
// taken meanwhile: its driver would refuse every other.
func TestAdministratorsAddressStays(t *testing.T) {
	inOwnNetwork(t)
	const administrators = "02:00:00:00:00:01"
	h := returnedLink(t, "net1", administrators)
	hw := function("ens1v0", "52:54:00:11:00:01")
	hw.Original.VF = &attachment.VFState{PF: "peer", MAC: administrators}
	if err := h.Restore(hw); err != nil {
		t.Fatal(err)
	}
	l, err := netlink.LinkByName("ens1v0")
	if err != nil {
		t.Fatal(err)
	}
	if got := l.Attrs().HardwareAddr.String(); got != administrators {
		t.Errorf("its address is %s, not the administrator's", got)
	}
}

func TestFunctionsThatCannotBeRestored(t *testing.T) {
	inOwnNetwork(t)
	const mac = "52:54:00:11:00:01"
	h := returnedLink(t, "net1", mac)
	drivertest.WantReason(t, h.Restore(function("peer", mac)), reason.DeviceNotRestored, "device "+vfAddress+" ", "interface peer")
	// It does not wait for a function that is gone, or whose driver has changed.
	folder := filepath.Join(h.sys, "bus", "pci", "devices", vfAddress)
	if err := os.RemoveAll(filepath.Join(folder, "net")); err != nil {
		t.Fatal(err)
	}
	drivertest.WantReason(t, h.Restore(function("ens1v0", mac)), reason.DeviceNotRestored, "device "+vfAddress+" ", "interface ens1v0")
	if err := os.Remove(filepath.Join(folder, "driver")); err != nil {
		t.Fatal(err)
	}
	if err := h.Restore(function("ens1v0", mac)); err != nil {
		t.Errorf("a function without its driver: %v", err)
	}
	if err := os.RemoveAll(folder); err != nil {
		t.Fatal(err)
	}
	if err := h.Restore(function("ens1v0", mac)); err != nil {
		t.Errorf("a function that is gone: %v", err)
	}
}

func parseMAC(t *testing.T, text string) net.HardwareAddr {
	t.Helper()
	mac, err := net.ParseMAC(text)
	if err != nil {
		t.Fatal(err)
	}
	return mac
}
