package snapshot

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
)

// interfaces compares two that stand for each other.
func (c *podComparison) interfaces(p pairOf) {
	if p.now.Problem != "" && p.was.Problem == "" {
		c.add(CheckFailed, p.was, "", p.now.Problem, "%s is not as it was made: %s", p.was.label(), p.now.Problem)
	}
	c.mac(p)
	if was, now := c.mtu(c.was, p.was), c.mtu(c.now, p.now); was != 0 && now != 0 {
		c.changed(MTUOther, p.was, "the MTU of "+p.was.label(), strconv.Itoa(was), strconv.Itoa(now))
	}
	c.addresses(p)
	c.dns(p)
	c.device(p)
}

// mtu is the one that the node saw or, where nobody has looked, that status
// tells; only newer plugins do.
func (c *podComparison) mtu(p *Pod, n *Interface) int {
	if p.Seen != nil {
		if l := p.Seen.link(n.Name); l != nil && c.bothSeen() {
			return l.MTU
		}
	}
	return n.MTU
}

func (c *podComparison) bothSeen() bool { return c.was.Seen != nil && c.now.Seen != nil }

// macOf is the one that status tells, or else the node.
func macOf(p *Pod, n *Interface) string {
	mac := n.MAC
	if mac == "" && p.Seen != nil {
		if l := p.Seen.link(n.Name); l != nil {
			mac = l.MAC
		}
	}
	return strings.ToLower(mac)
}

func (c *podComparison) mac(p pairOf) {
	was, now := macOf(c.was, p.was), macOf(c.now, p.now)
	if was == "" || now == "" || was == now {
		return
	}
	code := MACOther
	if asked := c.askedMAC(p); strings.EqualFold(asked, was) {
		code = MACLost
	}
	c.changed(code, p.was, "the MAC address of "+p.was.label(), was, now)
}

// askedMAC is the one that the pod or the network's configuration asked for.
func (c *podComparison) askedMAC(p pairOf) string {
	if p.was.Asked != nil && p.was.Asked.MAC != "" {
		return p.was.Asked.MAC
	}
	if n := c.comparison.was.network(p.was.Network); n != nil {
		return n.MAC
	}
	return ""
}

// addresses compares them without their order: the kernel's and a plugin's
// differ.
func (c *podComparison) addresses(p pairOf) {
	was, now := addressesOf(p.was.IPs), addressesOf(p.now.IPs)
	lost := slices.DeleteFunc(slices.Clone(was), func(a netip.Addr) bool { return slices.Contains(now, a) })
	gained := slices.DeleteFunc(slices.Clone(now), func(a netip.Addr) bool { return slices.Contains(was, a) })
	asked := c.askedAddresses(p)
	for _, a := range lost {
		i := slices.IndexFunc(gained, func(b netip.Addr) bool { return a.Is4() == b.Is4() })
		if i < 0 {
			code, text := AddressFewer, "%s had %s, and nothing in its place"
			if slices.Contains(asked, a) {
				code = AddressLost
			}
			c.add(code, p.was, a.String(), "", text, p.was.label(), a)
			continue
		}
		b := gained[i]
		gained = slices.Delete(gained, i, i+1)
		c.addressChanged(p, a, b, slices.Contains(asked, a))
	}
	for _, b := range gained {
		c.add(AddressAdded, p.was, "", b.String(), "%s has %s, and had not", p.was.label(), b)
	}
}

func (c *podComparison) addressChanged(p pairOf, was, now netip.Addr, asked bool) {
	code := SubnetUnknown
	switch same, known := sameSubnet(c.subnets(p), was, now); {
	case asked:
		code = AddressLost
	case known && same:
		code = AddressOther
	case known:
		code = SubnetOther
	}
	c.changed(code, p.was, "the address of "+p.was.label(), was.String(), now.String())
}

// addressesOf reads them; those of the link alone are everybody's own.
func addressesOf(texts []string) []netip.Addr {
	var out []netip.Addr
	for _, t := range texts {
		if a, ok := addressOf(t); ok && !a.IsLinkLocalUnicast() && !slices.Contains(out, a) {
			out = append(out, a)
		}
	}
	return out
}

// askedAddresses are those that the pod asked for or that every pod of the
// network has.
func (c *podComparison) askedAddresses(p pairOf) []netip.Addr {
	var texts []string
	if p.was.Asked != nil {
		texts = append(texts, p.was.Asked.IPs...)
	}
	if n := c.comparison.was.network(p.was.Network); n != nil {
		texts = append(texts, n.Static...)
	}
	return addressesOf(texts)
}

// subnets are all that are known of an interface's network.
func (c *podComparison) subnets(p pairOf) []netip.Prefix {
	var texts []string
	for _, side := range []struct {
		snapshot *Snapshot
		pod      *Pod
		of       *Interface
	}{{c.comparison.was, c.was, p.was}, {c.comparison.now, c.now, p.now}} {
		if n := side.snapshot.network(side.of.Network); n != nil {
			texts = append(texts, n.Subnets...)
		}
		for _, d := range side.pod.Devices {
			if d.Interface == side.of.Name {
				texts = append(texts, d.IPs...)
			}
		}
		if side.pod.Seen != nil {
			if l := side.pod.Seen.link(side.of.Name); l != nil {
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

// sameSubnet reports whether two addresses are of one subnet, as far as the
// subnets that are known tell.
func sameSubnet(subnets []netip.Prefix, a, b netip.Addr) (same, known bool) {
	for _, s := range subnets {
		if s.Contains(a) && s.Contains(b) {
			return true, true
		}
		known = known || s.Contains(a) || s.Contains(b)
	}
	return false, known
}

func (c *podComparison) dns(p pairOf) {
	c.changed(DNSOther, p.was, "the DNS of "+p.was.label(), p.was.DNS.String(), p.now.DNS.String())
}

// String is one line; empty for nothing.
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

func (c *podComparison) device(p pairOf) {
	was, now := p.was.Device, p.now.Device
	if was == nil {
		return
	}
	if now == nil {
		c.add(DeviceLost, p.was, was.Type, "", "%s had a device (%s %s), and none is told now", p.was.label(), was.Type, was.PCI)
		return
	}
	c.changed(DeviceLost, p.was, "the type of the device of "+p.was.label(), was.Type, now.Type)
	if was.RDMA != "" && now.RDMA == "" {
		c.add(DeviceLost, p.was, was.RDMA, "", "%s had RDMA device %s, and has none", p.was.label(), was.RDMA)
	}
	if was.Mode != now.Mode {
		c.changed(DeviceLost, p.was, "the mode of the device of "+p.was.label(), was.Mode, now.Mode)
	}
	if was.PCI == now.PCI {
		return
	}
	code := DeviceOther
	if p.was.Asked != nil && p.was.Asked.DeviceID != "" && strings.EqualFold(p.was.Asked.DeviceID, was.PCI) {
		code = DevicePinned
	}
	c.changed(code, p.was, "the device of "+p.was.label(), was.PCI, now.PCI)
}

// defaultRoute compares the way out of the pod, by what it asked for or else by
// what status tells.
func (c *podComparison) defaultRoute() {
	both := defaultEntry(c.was) != nil && defaultEntry(c.now) != nil
	was, now := c.wayOut(c.was, both), c.wayOut(c.now, both)
	if was != now {
		c.defaultTold = true
		c.changed(DefaultRoute, nil, "the default route", was, now)
		return
	}
	if was, now := told(c.was, both), told(c.now, both); was != now {
		c.changed(DefaultRetold, nil, "what network-status says of the default route", was, now)
	}
}

// wayOut is by which interfaces a pod's default routes leave, in words. The
// default network's gateway is the node's.
func (c *podComparison) wayOut(p *Pod, withDefault bool) string {
	var out []string
	for _, n := range attached(p) {
		if n.Asked != nil && n.Asked.DefaultRoute != nil {
			out = append(out, fmt.Sprintf("%s via %s", c.oldName(n, p), strings.Join(*n.Asked.DefaultRoute, ",")))
		}
	}
	if len(out) > 0 {
		return strings.Join(out, "; ")
	}
	return c.gateways(p, withDefault)
}

// gateways are those that status tells.
func (c *podComparison) gateways(p *Pod, withDefault bool) string {
	var out []string
	for i := range p.Interfaces {
		n := &p.Interfaces[i]
		switch {
		case len(n.Gateways) == 0:
		case !n.Default:
			out = append(out, fmt.Sprintf("%s via %s", c.oldName(n, p), strings.Join(n.Gateways, ",")))
		case withDefault:
			out = append(out, "the default network")
		}
	}
	return strings.Join(out, "; ")
}

// oldName is what an interface was called: that it is renamed is told already.
func (c *podComparison) oldName(n *Interface, of *Pod) string {
	if of == c.now {
		for _, p := range c.pairs {
			if p.now == n {
				return p.was.Name
			}
		}
	}
	return n.Name
}

// told is what network-status has of gateways, word for word.
func told(p *Pod, withDefault bool) string {
	var out []string
	for _, n := range p.Interfaces {
		if n.Default && withDefault && len(n.Gateways) > 0 {
			out = append(out, "the default network")
		}
		if !n.Default && len(n.Gateways) > 0 {
			out = append(out, strings.Join(n.Gateways, ","))
		}
	}
	return strings.Join(out, "; ")
}
