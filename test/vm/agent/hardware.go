package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"

	"github.com/nadra-dev/nadra/test/vm/wire"
)

// setUpUplink configures the guest's interface in the cluster's network.
func setUpUplink(config wire.Boot) error {
	links, err := netlink.LinkList()
	if err != nil {
		return err
	}
	for _, link := range links {
		name := link.Attrs().Name
		switch {
		case name == "lo":
			if err := netlink.LinkSetUp(link); err != nil {
				return err
			}
		case link.Attrs().HardwareAddr.String() == config.Uplink:
			if err := connectUplink(link, config); err != nil {
				return fmt.Errorf("configuring %s: %w", name, err)
			}
		}
	}
	return os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0)
}

func connectUplink(link netlink.Link, config wire.Boot) error {
	address, err := netlink.ParseAddr(config.Address + "/24")
	if err != nil {
		return err
	}
	if err := netlink.AddrAdd(link, address); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return err
	}
	gateway, err := netlink.ParseAddr(config.Gateway + "/32")
	if err != nil {
		return err
	}
	return netlink.RouteAdd(&netlink.Route{LinkIndex: link.Attrs().Index, Gw: gateway.IP})
}

// setUpHardware sets up the SR-IOV cards as an administrator does: it names the physical
// functions, creates virtual functions, and adds RDMA devices to some of them.
func setUpHardware(config wire.Boot) error {
	// Possible only while there is no other network namespace.
	if err := netlink.RdmaSystemSetNetnsMode("exclusive"); err != nil {
		return fmt.Errorf("setting the RDMA subsystem to exclusive mode: %w", err)
	}
	cards, err := physicalFunctions()
	if err != nil {
		return err
	}
	// One after the other, so that the kernel's numbers are the same at each boot.
	for i, card := range cards {
		if err := setUpCard(card, fmt.Sprintf("pf%d", i), config.VFs); err != nil {
			return err
		}
	}
	var devices []string
	for i, card := range cards {
		for vf := range config.RDMA {
			function, err := os.Readlink(filepath.Join(card, "virtfn"+strconv.Itoa(vf)))
			if err != nil {
				return err
			}
			device := fmt.Sprintf("rxe%d%d", i, vf)
			if err := addRDMA(device, filepath.Base(function)); err != nil {
				return fmt.Errorf("giving an RDMA device to %s: %w", filepath.Base(function), err)
			}
			devices = append(devices, device)
		}
	}
	return announceRDMA(devices)
}

// physicalFunctions lists the folders of the igb cards in the order of their
// addresses.
func physicalFunctions() ([]string, error) {
	found, err := filepath.Glob("/sys/bus/pci/drivers/igb/0000:*")
	if err != nil {
		return nil, err
	}
	if len(found) == 0 {
		return nil, errors.New("there is no igb card")
	}
	slices.Sort(found)
	return found, nil
}

// setUpCard names a card's interface, sets it up, which its virtual functions need, and
// creates these.
func setUpCard(card, name string, vfs int) error {
	link, err := linkOf(card)
	if err != nil {
		return err
	}
	if err := netlink.LinkSetName(link, name); err != nil {
		return fmt.Errorf("renaming %s to %s: %w", link.Attrs().Name, name, err)
	}
	if err := netlink.LinkSetUp(link); err != nil {
		return fmt.Errorf("setting %s up: %w", name, err)
	}
	if err := os.WriteFile(filepath.Join(card, "sriov_numvfs"), []byte(strconv.Itoa(vfs)), 0); err != nil {
		return fmt.Errorf("making virtual functions of %s: %w", name, err)
	}
	for vf := range vfs {
		link, err := linkOf(filepath.Join(card, "virtfn"+strconv.Itoa(vf)))
		if err != nil {
			return err
		}
		if err := netlink.LinkSetName(link, fmt.Sprintf("%sv%d", name, vf)); err != nil {
			return fmt.Errorf("renaming %s: %w", link.Attrs().Name, err)
		}
	}
	return nil
}

// linkOf returns the interface of a PCI function.
func linkOf(function string) (netlink.Link, error) {
	names, err := filepath.Glob(filepath.Join(function, "net", "*"))
	if err != nil {
		return nil, err
	}
	if len(names) != 1 {
		return nil, fmt.Errorf("%s has %d interfaces, not one", function, len(names))
	}
	return netlink.LinkByName(filepath.Base(names[0]))
}

// addRDMA adds a soft RoCE device that looks like the RDMA side of a virtual function. It
// is on a dummy interface of its own, because a device on the function's interface would
// end when that is moved to a pod.
func addRDMA(name, function string) error {
	dummy := &netlink.Dummy{LinkAttrs: netlink.LinkAttrs{Name: "on" + name}}
	if err := netlink.LinkAdd(dummy); err != nil {
		return err
	}
	if err := netlink.LinkSetUp(dummy); err != nil {
		return err
	}
	if err := netlink.RdmaLinkAdd(name, "rxe", dummy.Name); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	return os.WriteFile("/sys/module/lanerdma/parameters/bind", []byte(name+" "+function), 0)
}

// busOf returns the address of the PCI function behind an interface, in the
// namespace that sysfs shows.
func busOf(name string) string {
	uevent, err := os.ReadFile(filepath.Join("/sys/class/net", name, "device/uevent"))
	if err != nil {
		return ""
	}
	for line := range bytes.Lines(uevent) {
		if slot, ok := strings.CutPrefix(strings.TrimSpace(string(line)), "PCI_SLOT_NAME="); ok {
			return slot
		}
	}
	return ""
}
