package driver

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

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

const (
	// returning is how long the kernel may take to give the host back the
	// interface of a network namespace that is gone.
	returning = 2 * time.Second
	// ethernetAddress is the length of a MAC, in bytes.
	ethernetAddress = 6
	// returnPoll is the interval at which it is looked for.
	returnPoll = 20 * time.Millisecond
)

// homes gets functions back to the host as they were. Plugins do so with a DEL;
// what they cannot do is left to it: for a namespace that was gone first the
// kernel gives the interface back under the pod's name and with the pod's MAC,
// and no plugin mends that.
type homes struct {
	// sys is where the host's sysfs is mounted. The driver runs in the host's
	// network namespace.
	sys string
}

// of describes a function before it is given away. One without an interface, as
// for user space, has what its physical function has set for it.
func (h homes) of(f *inventory.Function) (*attachment.Home, error) {
	home := &attachment.Home{Driver: f.Driver}
	if len(f.Netdevs) == 1 {
		l, err := netlink.LinkByName(f.Netdevs[0].Name)
		if err != nil {
			return nil, fmt.Errorf("looking at interface %s of device %s: %w", f.Netdevs[0].Name, f.ID, err)
		}
		home.Interface = l.Attrs().Name
		// That of an IPoIB interface has its queue pair's number in it: it is
		// another after every move, and cannot be set.
		if mac := l.Attrs().HardwareAddr; len(mac) == ethernetAddress {
			home.MAC = mac.String()
		}
	}
	if f.Kind == inventory.KindVF && f.PFName() != "" {
		vf, err := lookAtVF(f.PFName(), f.Index)
		if err != nil {
			return nil, err
		}
		home.VF = vf
	}
	return home, nil
}

// restore has a function be as it was. One that is no longer there, as after a
// change of the number of virtual functions, needs nothing.
func (h homes) restore(hw attachment.Hardware) error {
	if hw.Home == nil {
		return nil
	}
	if _, err := os.Stat(h.folder(hw)); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	linkErr := h.restoreLink(hw)
	if err := restoreVF(hw.Home.VF); err != nil {
		return fmt.Errorf("giving device %s back to the host: %w", hw.ID, err)
	}
	// While a plugin's address is set at the physical function, drivers refuse the
	// function's own. But the function comes first: its own address, set at the
	// physical one, would be the administrator's from then on.
	if errors.As(linkErr, new(unix.Errno)) {
		if linkErr = h.reset(hw); linkErr == nil {
			linkErr = h.restoreLink(hw)
		}
	}
	if linkErr != nil {
		return fmt.Errorf("giving device %s back to the host as interface %s: %w", hw.ID, hw.Home.Interface, linkErr)
	}
	// Trust is what lets a function have another address than the administrator's.
	if err := restoreTrust(hw.Home.VF); err != nil {
		return fmt.Errorf("giving device %s back to the host: %w", hw.ID, err)
	}
	return nil
}

// folder is the function's in sysfs.
func (h homes) folder(hw attachment.Hardware) string {
	if hw.ID != hw.PCIAddress {
		return filepath.Join(h.sys, "bus", "auxiliary", "devices", hw.ID)
	}
	return filepath.Join(h.sys, "bus", "pci", "devices", hw.PCIAddress)
}

// restoreLink gives the interface its name and address.
func (h homes) restoreLink(hw attachment.Hardware) error {
	home := hw.Home
	if home.Interface == "" {
		return nil
	}
	name, err := h.returned(hw)
	if err != nil || name == "" {
		return err
	}
	l, err := netlink.LinkByName(name)
	if err != nil {
		return err
	}
	var mac net.HardwareAddr
	if home.MAC != "" {
		if mac, err = net.ParseMAC(home.MAC); err != nil {
			return err
		}
	}
	addressed := mac == nil || bytes.Equal(l.Attrs().HardwareAddr, mac) || administered(home.VF, l.Attrs().HardwareAddr)
	if name == home.Interface && addressed {
		return nil
	}
	// Neither changes while an interface is up.
	if err := netlink.LinkSetDown(l); err != nil {
		return fmt.Errorf("setting %s down: %w", name, err)
	}
	if name != home.Interface {
		if err := rename(l, home.Interface); err != nil {
			return err
		}
	}
	if addressed {
		return nil
	}
	if err := netlink.LinkSetHardwareAddr(l, mac); err != nil {
		return fmt.Errorf("setting the address %s: %w", mac, err)
	}
	return nil
}

// reset sets a function's interface up and down. With that its driver asks the
// physical function for its address; igbvf does not otherwise.
func (h homes) reset(hw attachment.Hardware) error {
	name, err := h.returned(hw)
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

// administered reports whether a MAC is the one that the administrator has set
// for a virtual function. The function takes it when it is next reset, if it has
// not yet, and drivers refuse every other.
func administered(vf *attachment.VFHome, mac net.HardwareAddr) bool {
	return vf != nil && strings.EqualFold(vf.MAC, mac.String())
}

// rename gives an interface a name, also one that it has as a further name
// already: kernels refuse that (sriov-cni #445).
func rename(l netlink.Link, name string) error {
	if slices.Contains(l.Attrs().AltNames, name) {
		if err := netlink.LinkDelAltName(l, name); err != nil {
			return fmt.Errorf("removing the further name %s from %s: %w", name, l.Attrs().Name, err)
		}
	}
	if err := netlink.LinkSetName(l, name); err != nil {
		return fmt.Errorf("renaming %s (is there another interface of that name?): %w", l.Attrs().Name, err)
	}
	return nil
}

// returned waits until the host has the function's interface again, and returns
// its name; none where the function has lost it, as to a driver for user space.
func (h homes) returned(hw attachment.Hardware) (string, error) {
	for deadline := time.Now().Add(returning); ; time.Sleep(returnPoll) {
		entries, err := os.ReadDir(filepath.Join(h.folder(hw), "net"))
		switch {
		case err == nil && len(entries) > 0:
			return entries[0].Name(), nil
		case err != nil && !errors.Is(err, fs.ErrNotExist):
			return "", err
		}
		if !h.hasDriver(hw) {
			return "", nil
		}
		if time.Now().After(deadline) {
			return "", errors.New("the interface is not on the host: is it in another network namespace?")
		}
	}
}

// hasDriver reports whether the function is driven as when it was given away.
func (h homes) hasDriver(hw attachment.Hardware) bool {
	target, err := os.Readlink(filepath.Join(h.folder(hw), "driver"))
	return err == nil && (hw.Home.Driver == "" || hw.ID != hw.PCIAddress || filepath.Base(target) == hw.Home.Driver)
}
