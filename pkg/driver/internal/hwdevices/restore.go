package hwdevices

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

const (
	// returnTime is how long the kernel may take to return an interface to the host
	// after its network namespace has gone.
	returnTime = 2 * time.Second
	// returnPoll is the pause between looks for the interface.
	returnPoll = 20 * time.Millisecond
	// ethernetAddress is the length of a MAC in bytes.
	ethernetAddress = 6
)

// Restorer restores functions. A plugin's DEL moves the interface back. If the network
// namespace was gone before the DEL, the kernel has returned the interface with the pod's
// name and MAC, and no plugin corrects that.
type Restorer struct {
	// sys is the mount point of the host's sysfs. The driver runs in the host's network
	// namespace.
	sys string
}

// NewRestorer returns a Restorer for the host whose sysfs is at sys.
func NewRestorer(sys string) Restorer { return Restorer{sys} }

// Describe returns the state of a function before a pod gets it. A function without an
// interface, as for user space, only has what its physical function has set for it.
func (r Restorer) Describe(f *inventory.Function) (*attachment.OriginalState, error) {
	out := &attachment.OriginalState{Driver: f.Driver}
	if len(f.Netdevs) == 1 {
		l, err := netlink.LinkByName(f.Netdevs[0].Name)
		if err != nil {
			return nil, fmt.Errorf("reading interface %s of device %s: %w", f.Netdevs[0].Name, f.ID, err)
		}
		out.Interface = l.Attrs().Name
		// The address of an IPoIB interface has the number of its queue pair. It changes
		// with every move and cannot be set.
		if mac := l.Attrs().HardwareAddr; len(mac) == ethernetAddress {
			out.MAC = mac.String()
		}
	}
	if f.Kind == inventory.KindVF && f.PFName() != "" {
		vf, err := readVF(f.PFName(), f.Index)
		if err != nil {
			return nil, err
		}
		out.VF = vf
	}
	return out, nil
}

// Restore sets a device to its original state. A function that no longer exists, for
// example after the number of virtual functions has changed, needs nothing.
func (r Restorer) Restore(hw attachment.Hardware) error {
	if hw.Original == nil {
		return nil
	}
	if _, err := os.Stat(r.folder(hw)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	linkErr := r.restoreLink(hw)
	if err := restoreVF(hw.Original.VF); err != nil {
		return reason.Errorf(reason.DeviceNotRestored, "giving device %s back to the host: %w", hw.ID, err)
	}
	// While the physical function has a plugin's address for the function, drivers refuse
	// the function's own. The function still has to come first: if the physical function
	// were given that address, it would be the administrator's from then on.
	if errors.As(linkErr, new(unix.Errno)) {
		if linkErr = r.reset(hw); linkErr == nil {
			linkErr = r.restoreLink(hw)
		}
	}
	if linkErr != nil {
		return reason.Errorf(reason.DeviceNotRestored, "giving device %s back to the host as interface %s: %w", hw.ID, hw.Original.Interface, linkErr)
	}
	// Last, because only a trusted function may have another address than the
	// administrator's.
	if err := restoreTrust(hw.Original.VF); err != nil {
		return reason.Errorf(reason.DeviceNotRestored, "giving device %s back to the host: %w", hw.ID, err)
	}
	return nil
}

// folder returns the function's directory in sysfs.
func (r Restorer) folder(hw attachment.Hardware) string {
	if hw.ID != hw.PCIAddress {
		return filepath.Join(r.sys, "bus", "auxiliary", "devices", hw.ID)
	}
	return filepath.Join(r.sys, "bus", "pci", "devices", hw.PCIAddress)
}

// restoreLink restores the name and the address of the function's interface.
func (r Restorer) restoreLink(hw attachment.Hardware) error {
	original := hw.Original
	if original.Interface == "" {
		return nil
	}
	name, err := r.awaitLink(hw)
	if err != nil || name == "" {
		return err
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	var mac net.HardwareAddr
	if original.MAC != "" {
		if mac, err = net.ParseMAC(original.MAC); err != nil {
			return err
		}
	}
	hasAddress := mac == nil || bytes.Equal(l.Attrs().HardwareAddr, mac) || isAdministered(original.VF, l.Attrs().HardwareAddr)
	if name == original.Interface && hasAddress {
		return nil
	}
	// The kernel changes neither while the interface is up.
	if err := netlink.LinkSetDown(l); err != nil {
		return fmt.Errorf("setting %s down: %w", name, err)
	}
	if name != original.Interface {
		if err := rename(l, original.Interface); err != nil {
			return err
		}
	}
	if hasAddress {
		return nil
	}
	if err := netlink.LinkSetHardwareAddr(l, mac); err != nil {
		return fmt.Errorf("setting the address %s: %w", mac, err)
	}
	return nil
}

// reset sets the function's interface up and down, so that its driver asks the physical
// function for its address. Otherwise igbvf does not ask.
func (r Restorer) reset(hw attachment.Hardware) error {
	name, err := r.awaitLink(hw)
	if err != nil || name == "" {
		return err
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(l); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	if err := netlink.LinkSetDown(l); err != nil {
		return fmt.Errorf("setting %s down: %w", name, err)
	}
	return nil
}

// isAdministered reports whether a MAC is the one that the administrator has set for a
// virtual function. The function takes it at its next reset at the latest, and drivers
// refuse every other.
func isAdministered(vf *attachment.VFState, mac net.HardwareAddr) bool {
	return vf != nil && strings.EqualFold(vf.MAC, mac.String())
}

// rename renames an interface, also to one of its alternative names, which kernels refuse
// (sriov-cni #445).
func rename(l netlink.Link, name string) error {
	if slices.Contains(l.Attrs().AltNames, name) {
		if err := netlink.LinkDelAltName(l, name); err != nil {
			return fmt.Errorf("removing the alternative name %s from %s: %w", name, l.Attrs().Name, err)
		}
	}
	if err := netlink.LinkSetName(l, name); err != nil {
		return fmt.Errorf("renaming %s (is there another interface of that name?): %w", l.Attrs().Name, err)
	}
	return nil
}

// awaitLink waits until the host has the function's interface and returns its name. It
// returns an empty name if the function has no interface any more, because a driver for
// user space has it.
func (r Restorer) awaitLink(hw attachment.Hardware) (string, error) {
	for deadline := time.Now().Add(returnTime); ; time.Sleep(returnPoll) {
		entries, err := os.ReadDir(filepath.Join(r.folder(hw), "net"))
		switch {
		case err == nil && len(entries) > 0:
			return entries[0].Name(), nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		if !r.hasDriver(hw) {
			return "", nil
		}
		if time.Now().After(deadline) {
			return "", errors.New("the interface is not on the host: is it in another network namespace?")
		}
	}
}

// hasDriver reports whether the function has its original driver.
func (r Restorer) hasDriver(hw attachment.Hardware) bool {
	target, err := os.Readlink(filepath.Join(r.folder(hw), "driver"))
	return err == nil && (hw.Original.Driver == "" || hw.ID != hw.PCIAddress || filepath.Base(target) == hw.Original.Driver)
}
