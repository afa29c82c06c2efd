package main

import (
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/vishvananda/netlink"
)

// setVF changes a physical function's settings of a virtual one, as `ip link set pf0 vf 2
// …` does, which busybox' ip does not support. settings are key=value.
func setVF(pf, index string, settings []string) error {
	link, err := netlink.LinkByName(pf)
	if err != nil {
		return err
	}
	vf, err := strconv.Atoi(index)
	if err != nil {
		return err
	}
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, "=")
		if err := setOne(link, vf, key, value); err != nil {
			return fmt.Errorf("setting %s of VF %d of %s: %w", setting, vf, pf, err)
		}
	}
	return nil
}

func setOne(link netlink.Link, vf int, key, value string) error {
	switch key {
	case "mac":
		mac, err := net.ParseMAC(value)
		if err != nil {
			return err
		}
		return netlink.LinkSetVfHardwareAddr(link, vf, mac)
	case "vlan":
		vlan, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		return netlink.LinkSetVfVlan(link, vf, vlan)
	case "trust":
		return netlink.LinkSetVfTrust(link, vf, value == "on")
	case "spoofchk":
		return netlink.LinkSetVfSpoofchk(link, vf, value == "on")
	case "rate":
		rate, err := strconv.Atoi(value)
		if err != nil {
			return err
		}
		return netlink.LinkSetVfRate(link, vf, 0, rate)
	}
	return fmt.Errorf("unknown setting %q: use mac, vlan, trust, spoofchk or rate", key)
}
