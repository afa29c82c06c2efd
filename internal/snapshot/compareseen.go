package snapshot

import (
	"fmt"
	"maps"
	"net/netip"
	"slices"
	"strconv"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// seen compares what the nodes saw.
func (c *podComparison) seen() {
	was, now := c.was.Seen, c.now.Seen
	switch {
	case was == nil && len(c.comparison.was.Nodes) > 0 && now != nil:
		c.add(NotCompared, nil, "", "", "its node could not be asked for the snapshot%s", trouble(c.comparison.was, c.was.Node))
	case was != nil && now == nil && len(c.comparison.now.Nodes) > 0:
		c.add(NotCompared, nil, "", "", "its node could not be asked now%s", trouble(c.comparison.now, c.now.Node))
	}
	if !c.bothSeen() {
		return
	}
	for _, message := range now.Errors {
		if !slices.Contains(was.Errors, message) {
			c.add(NotCompared, nil, "", "", "its node could not read all of it: %s", message)
		}
	}
	c.links()
	if len(now.Errors) == 0 {
		c.routing()
	}
	c.sysctls()
	c.functions()
}

// trouble is why a node could not be asked, where that is known.
func trouble(s *Snapshot, node string) string {
	for _, n := range s.Nodes {
		if n.Name == node && len(n.Errors) > 0 {
			return ": " + strings.Join(n.Errors, "; ")
		}
	}
	return ""
}

// links compares the interfaces in the pod, and finds those that are not there.
func (c *podComparison) links() {
	known := map[string]bool{}
	for i := range c.was.Seen.Links {
		was := &c.was.Seen.Links[i]
		n := c.reported(was.Name)
		name := c.newName(was.Name)
		known[name] = true
		now := c.now.Seen.link(name)
		switch {
		case now != nil:
			c.link(n, was, now)
		case !slices.Contains(c.absent, was.Name):
			c.absent = append(c.absent, was.Name)
			c.add(LinkMissing, n, was.Name, "", "interface %s (%s) is not in the pod", name, was.Kind)
		}
	}
	for _, l := range c.now.Seen.Links {
		if !known[l.Name] && !slices.ContainsFunc(c.now.Interfaces, func(n Interface) bool { return n.Name == l.Name }) {
			c.add(NetworkAdded, &Interface{Name: l.Name}, "", l.Kind, "it has interface %s (%s), and had not", l.Name, l.Kind)
		}
	}
}

// reported is the attachment that an interface of the pod is; one without a
// network for any other.
func (c *podComparison) reported(name string) *Interface {
	for i := range c.was.Interfaces {
		if c.was.Interfaces[i].Name == name {
			return &c.was.Interfaces[i]
		}
	}
	return &Interface{Name: name}
}

// newName is what an interface is called now.
func (c *podComparison) newName(name string) string {
	for _, p := range c.pairs {
		if p.was.Name == name {
			return p.now.Name
		}
	}
	return name
}

func (c *podComparison) link(n *Interface, was, now *probe.Link) {
	c.changed(LinkKind, n, "the kind of "+was.Name, was.Kind, now.Kind)
	c.changed(LinkKind, n, "the mode of "+was.Name, was.Mode, now.Mode)
	c.changed(LinkKind, n, "the VLAN of "+was.Name, strconv.Itoa(was.VLAN), strconv.Itoa(now.VLAN))
	c.changed(LinkKind, n, "the master of "+was.Name, c.newName(was.Master), now.Master)
	if was.Up && !now.Up || was.Running && !now.Running {
		c.changed(LinkDown, n, "the state of "+was.Name, state(was), state(now))
	}
	c.changed(LinkFlags, n, "promiscuous mode of "+was.Name, strconv.FormatBool(was.Promiscuous), strconv.FormatBool(now.Promiscuous))
	c.changed(LinkFlags, n, "all-multicast mode of "+was.Name, strconv.FormatBool(was.AllMulticast), strconv.FormatBool(now.AllMulticast))
	c.changed(LinkFlags, n, "the queue of "+was.Name, strconv.Itoa(was.TxQueue), strconv.Itoa(now.TxQueue))
	code := HostBelow
	if was.Kind == "veth" && now.Kind == "veth" {
		code = HostSide
	}
	c.changed(code, n, "what is below "+was.Name, was.Lower, now.Lower)
	c.changed(HostBelow, n, "what the host's end of "+was.Name+" is a part of", was.LowerMaster, now.LowerMaster)
	if w, n2 := lengths(was), lengths(now); len(w) == len(n2) && !slices.Equal(w, n2) {
		c.changed(PrefixOther, n, "the prefix lengths of "+was.Name, strings.Join(w, ","), strings.Join(n2, ","))
	}
}

func state(l *probe.Link) string {
	switch {
	case !l.Up:
		return "down"
	case !l.Running:
		return "up without a carrier"
	}
	return "up"
}

// lengths are those of an interface's addresses, but of such as are of the link
// alone.
func lengths(l *probe.Link) []string {
	var out []string
	for _, text := range l.Addresses {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, fmt.Sprintf("/%d", p.Bits()))
		}
	}
	slices.Sort(out)
	return out
}

// sysctls compares those of the pod, and of interfaces that are still there.
func (c *podComparison) sysctls() {
	tuned := slices.ContainsFunc(c.was.Interfaces, func(n Interface) bool { return c.tunes(n.Network) })
	c.sysctlsOf(nil, tuned, "", c.was.Seen.Sysctls, c.now.Seen.Sysctls)
	for i := range c.was.Seen.Links {
		was := &c.was.Seen.Links[i]
		if now := c.now.Seen.link(c.newName(was.Name)); now != nil {
			n := c.reported(was.Name)
			c.sysctlsOf(n, c.tunes(n.Network), " of "+was.Name, was.Sysctls, now.Sysctls)
		}
	}
}

// sysctlsOf compares those that both kernels have.
func (c *podComparison) sysctlsOf(n *Interface, tuned bool, of string, was, now map[string]string) {
	code := SysctlOther
	if tuned {
		code = SysctlTuned
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if value, there := now[name]; there {
			c.changed(code, n, name+of, was[name], value)
		}
	}
}

// tunes reports whether the plugin tuning is in a network's chain.
func (c *podComparison) tunes(network string) bool {
	for _, s := range []*Snapshot{c.comparison.was, c.comparison.now} {
		if n := s.network(network); n != nil && slices.Contains(n.Plugins, "tuning") {
			return true
		}
	}
	return false
}

// functions compares what physical functions have set for the pod's virtual
// ones: of interfaces that stand for each other, and of the rest as a whole.
func (c *podComparison) functions() {
	was, now := byAddress(c.was.Seen.VFs), byAddress(c.now.Seen.VFs)
	for _, p := range c.pairs {
		a, b := functionOf(c.was, p.was), functionOf(c.now, p.now)
		wasVF, wasThere := was[a]
		nowVF, nowThere := now[b]
		if wasThere && nowThere {
			c.changed(FunctionOther, p.was, "the virtual function of "+p.was.label(), settings(wasVF), settings(nowVF))
			delete(was, a)
			delete(now, b)
		}
	}
	restWas, restNow := allSettings(was), allSettings(now)
	if len(restWas) == len(restNow) { // another number is told by the variables
		for i := range restWas {
			c.changed(FunctionOther, nil, "a virtual function", restWas[i], restNow[i])
		}
	}
}

func byAddress(list []probe.VF) map[string]probe.VF {
	out := map[string]probe.VF{}
	for _, vf := range list {
		out[vf.PCI] = vf
	}
	return out
}

// functionOf is the PCI address of an interface's device.
func functionOf(p *Pod, n *Interface) string {
	if n.Device != nil && n.Device.PCI != "" {
		return n.Device.PCI
	}
	if l := p.Seen.link(n.Name); l != nil {
		return l.PCI
	}
	return ""
}

func allSettings(of map[string]probe.VF) []string {
	var out []string
	for _, vf := range of {
		out = append(out, settings(vf))
	}
	slices.Sort(out)
	return out
}

// settings are a function's in words, without its address and MAC.
func settings(vf probe.VF) string {
	parts := []string{"driver " + vf.Driver, fmt.Sprintf("vlan %d", vf.VLAN)}
	if vf.QoS != 0 || vf.Proto != "" {
		parts = append(parts, strings.TrimSpace(fmt.Sprintf("qos %d %s", vf.QoS, vf.Proto)))
	}
	parts = append(parts, fmt.Sprintf("spoof check %t", vf.SpoofCheck), fmt.Sprintf("trust %t", vf.Trust))
	if vf.MinRate != 0 || vf.MaxRate != 0 {
		parts = append(parts, fmt.Sprintf("rate %d-%d", vf.MinRate, vf.MaxRate))
	}
	return strings.Join(append(parts, "link "+vf.LinkState), ", ")
}
