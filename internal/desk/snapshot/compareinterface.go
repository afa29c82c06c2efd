package snapshot

import (
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// interfaceComparison compares an interface with its successor.
type interfaceComparison struct {
	*podPair
	was, now *Interface
}

// compare compares everything about the two interfaces but their names.
func (c *interfaceComparison) compare() {
	if c.now.Problem != "" && c.was.Problem == "" {
		c.add(CheckFailed, c.was, "", c.now.Problem, "%s fails its CHECK: %s", c.was.label(), c.now.Problem)
	}
	c.mac()
	if was, now := c.mtu(c.podPair.was, c.was), c.mtu(c.podPair.now, c.now); was != 0 && now != 0 {
		c.changed(MTUOther, c.was, "the MTU of "+c.was.label(), strconv.Itoa(was), strconv.Itoa(now))
	}
	c.addresses()
	c.changed(DNSOther, c.was, "the DNS of "+c.was.label(), c.was.DNS.String(), c.now.DNS.String())
	c.device()
}

// mtu returns the MTU that the node observed, if both nodes did, or else the one in
// network-status, which only newer plugins report.
func (c *interfaceComparison) mtu(p *Pod, n *Interface) int {
	if c.observed() {
		if l := p.Observed.link(n.Name); l != nil {
			return l.MTU
		}
	}
	return n.MTU
}

// mac compares MAC addresses.
func (c *interfaceComparison) mac() {
	was, now := macOf(c.podPair.was, c.was), macOf(c.podPair.now, c.now)
	if was == "" || now == "" || was == now {
		return
	}
	code := MACOther
	if strings.EqualFold(c.requestedMAC(), was) {
		code = MACLost
	}
	c.changed(code, c.was, "the MAC address of "+c.was.label(), was, now)
}

// macOf returns the MAC address in network-status, or else the one that the node
// observed.
func macOf(p *Pod, n *Interface) string {
	mac := n.MAC
	if mac == "" && p.Observed != nil {
		if l := p.Observed.link(n.Name); l != nil {
			mac = l.MAC
		}
	}
	return strings.ToLower(mac)
}

// requestedMAC returns the MAC address that the pod or the network's configuration
// requests.
func (c *interfaceComparison) requestedMAC() string {
	if c.was.Requested != nil && c.was.Requested.MAC != "" {
		return c.was.Requested.MAC
	}
	if n := c.comparison.was.networks[c.was.Network]; n != nil {
		return n.MAC
	}
	return ""
}

// addresses compares addresses regardless of their order, which the kernel and plugins
// choose differently.
func (c *interfaceComparison) addresses() {
	was, now := addressesOf(c.was.IPs), addressesOf(c.now.IPs)
	lost := slices.DeleteFunc(slices.Clone(was), func(a netip.Addr) bool { return slices.Contains(now, a) })
	gained := slices.DeleteFunc(slices.Clone(now), func(a netip.Addr) bool { return slices.Contains(was, a) })
	requested := c.requestedAddresses()
	for _, a := range lost {
		i := slices.IndexFunc(gained, func(b netip.Addr) bool { return a.Is4() == b.Is4() })
		if i < 0 {
			code := AddressFewer
			if slices.Contains(requested, a) {
				code = AddressLost
			}
			c.add(code, c.was, a.String(), "", "%s lost %s, and has no other address in its place", c.was.label(), a)
			continue
		}
		b := gained[i]
		gained = slices.Delete(gained, i, i+1)
		c.addressChanged(a, b, slices.Contains(requested, a))
	}
	for _, b := range gained {
		c.add(AddressAdded, c.was, "", b.String(), "%s has %s, and did not have it before", c.was.label(), b)
	}
}

// addressChanged records another address of the same family.
func (c *interfaceComparison) addressChanged(was, now netip.Addr, requested bool) {
	code := SubnetUnknown
	switch same, known := sameSubnet(c.subnets(), was, now); {
	case requested:
		code = AddressLost
	case known && same:
		code = AddressOther
	case known:
		code = SubnetOther
	}
	c.changed(code, c.was, "the address of "+c.was.label(), was.String(), now.String())
}

// addressesOf parses addresses, without link-local ones.
func addressesOf(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		if a, ok := addressOf(t); ok && !a.IsLinkLocalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// requestedAddresses returns the addresses that the pod requests, and those that every
// pod of the network has.
func (c *interfaceComparison) requestedAddresses() []netip.Addr {
	var texts []string
	if c.was.Requested != nil {
		texts = append(texts, c.was.Requested.IPs...)
	}
	if n := c.comparison.was.networks[c.was.Network]; n != nil {
		texts = append(texts, n.Static...)
	}
	return addressesOf(texts)
}

// subnets returns all known subnets of the interface's network.
func (c *interfaceComparison) subnets() []netip.Prefix {
	var texts []string
	for _, side := range []struct {
		snapshot *indexed
		pod      *Pod
		of       *Interface
	}{{c.comparison.was, c.podPair.was, c.was}, {c.comparison.now, c.podPair.now, c.now}} {
		if n := side.snapshot.networks[side.of.Network]; n != nil {
			texts = append(texts, n.Subnets...)
		}
		for _, d := range side.pod.Devices {
			if d.Interface == side.of.Name {
				texts = append(texts, d.IPs...)
			}
		}
		if side.pod.Observed != nil {
			if l := side.pod.Observed.link(side.of.Name); l != nil {
				texts = append(texts, l.Addresses...)
			}
		}
	}
	var out []netip.Prefix
	for _, t := range texts {
		if q, err := netip.ParsePrefix(t); err == nil && !q.Addr().IsLinkLocalUnicast() && !q.IsSingleIP() {
			out = append(out, q.Masked())
		}
	}
	return out
}

// sameSubnet reports whether two addresses are in one subnet. known is false if neither
// is in a known one.
func sameSubnet(subnets []netip.Prefix, a, b netip.Addr) (same, known bool) {
	for _, s := range subnets {
		if s.Contains(a) && s.Contains(b) {
			return true, true
		}
		known = known || s.Contains(a) || s.Contains(b)
	}
	return false, known
}

// String renders the settings in one line; empty for nil.
func (d *DNS) String() string {
	if d == nil {
		return ""
	}
	var parts []string
	for _, part := range []struct {
		name  string
		items []string
	}{{"servers", d.Nameservers}, {"search", d.Search}, {"options", d.Options}} {
		if len(part.items) > 0 {
			parts = append(parts, part.name+" "+strings.Join(part.items, ","))
		}
	}
	if d.Domain != "" {
		parts = append(parts, "domain "+d.Domain)
	}
	return strings.Join(parts, "; ")
}

// device compares the devices below the interfaces.
func (c *interfaceComparison) device() {
	was, now := c.was.Device, c.now.Device
	if was == nil {
		return
	}
	if now == nil {
		c.add(DeviceLost, c.was, was.Type, "", "%s had a device (%s %s), and has none now", c.was.label(), was.Type, was.PCI)
		return
	}
	c.changed(DeviceLost, c.was, "the type of the device of "+c.was.label(), was.Type, now.Type)
	if was.RDMA != "" && now.RDMA == "" {
		c.add(DeviceLost, c.was, was.RDMA, "", "%s had RDMA device %s, and has none now", c.was.label(), was.RDMA)
	}
	c.changed(DeviceLost, c.was, "the mode of the device of "+c.was.label(), was.Mode, now.Mode)
	if was.PCI == now.PCI {
		return
	}
	code := DeviceOther
	if c.was.Requested != nil && c.was.Requested.DeviceID != "" && strings.EqualFold(c.was.Requested.DeviceID, was.PCI) {
		code = DevicePinned
	}
	c.changed(code, c.was, "the device of "+c.was.label(), was.PCI, now.PCI)
}
