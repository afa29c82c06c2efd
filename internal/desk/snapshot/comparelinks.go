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

// observations compares what the nodes observed of two pods. routeReported is true if a
// difference of the default route is recorded already.
func (c *podPair) observations(routeReported bool) {
	was, now := c.was.Observed, c.now.Observed
	switch {
	case was == nil && len(c.comparison.was.Nodes) > 0 && now != nil:
		c.add(NotCompared, nil, "", "", "its node could not be inspected for the snapshot%s", nodeErrors(c.comparison.was, c.was.Node))
	case was != nil && now == nil && len(c.comparison.now.Nodes) > 0:
		c.add(NotCompared, nil, "", "", "its node could not be inspected now%s", nodeErrors(c.comparison.now, c.now.Node))
	}
	if !c.observed() {
		return
	}
	for _, message := range now.Errors {
		if !slices.Contains(was.Errors, message) {
			c.add(NotCompared, nil, "", "", "its node could not read everything: %s", message)
		}
	}
	missing := c.links()
	if len(now.Errors) == 0 {
		newRoutingComparison(c, missing, routeReported).compare()
	}
	c.sysctls()
	c.functions()
}

// nodeErrors returns the errors of inspecting a node, as the end of a message.
func nodeErrors(s *indexed, node string) string {
	for _, n := range s.Nodes {
		if n.Name == node && len(n.Errors) > 0 {
			return ": " + strings.Join(n.Errors, "; ")
		}
	}
	return ""
}

// links compares the interfaces in the pod. It returns the names of interfaces of the
// first pod that are missing now, including those whose network is missing.
func (c *podPair) links() (missing []string) {
	for _, n := range c.removed {
		missing = append(missing, n.Name)
	}
	known := map[string]bool{}
	for i := range c.was.Observed.Links {
		was := &c.was.Observed.Links[i]
		n := c.attachment(was.Name)
		name := c.newName(was.Name)
		known[name] = true
		now := c.now.Observed.link(name)
		switch {
		case now != nil:
			c.link(n, was, now)
		case !slices.Contains(missing, was.Name):
			missing = append(missing, was.Name)
			c.add(LinkMissing, n, was.Name, "", "interface %s (%s) is not in the pod", name, was.Kind)
		}
	}
	for _, l := range c.now.Observed.Links {
		if !known[l.Name] && !slices.ContainsFunc(c.now.Interfaces, func(n Interface) bool { return n.Name == l.Name }) {
			c.add(NetworkAdded, &Interface{Name: l.Name}, "", l.Kind, "it has interface %s (%s), and did not have it before", l.Name, l.Kind)
		}
	}
	return missing
}

// link compares an interface with its successor.
func (c *podPair) link(n *Interface, was, now *probe.Link) {
	c.changed(LinkKind, n, "the kind of "+was.Name, was.Kind, now.Kind)
	c.changed(LinkKind, n, "the mode of "+was.Name, was.Mode, now.Mode)
	c.changed(LinkKind, n, "the VLAN of "+was.Name, strconv.Itoa(was.VLAN), strconv.Itoa(now.VLAN))
	c.changed(LinkKind, n, "the master of "+was.Name, c.newName(was.Master), now.Master)
	if was.Up && !now.Up || was.Running && !now.Running {
		c.changed(LinkDown, n, "the state of "+was.Name, linkState(was), linkState(now))
	}
	c.changed(LinkFlags, n, "promiscuous mode of "+was.Name, strconv.FormatBool(was.Promiscuous), strconv.FormatBool(now.Promiscuous))
	c.changed(LinkFlags, n, "all-multicast mode of "+was.Name, strconv.FormatBool(was.AllMulticast), strconv.FormatBool(now.AllMulticast))
	c.changed(LinkFlags, n, "the queue length of "+was.Name, strconv.Itoa(was.TxQueue), strconv.Itoa(now.TxQueue))
	code := HostBelow
	if was.Kind == "veth" && now.Kind == "veth" {
		code = HostSide
	}
	c.changed(code, n, "the lower device of "+was.Name, was.Lower, now.Lower)
	c.changed(HostBelow, n, "the master of the host's end of "+was.Name, was.LowerMaster, now.LowerMaster)
	if before, after := prefixLengths(was), prefixLengths(now); len(before) == len(after) && !slices.Equal(before, after) {
		c.changed(PrefixOther, n, "the prefix lengths of "+was.Name, strings.Join(before, ","), strings.Join(after, ","))
	}
}

func linkState(l *probe.Link) string {
	switch {
	case !l.Up:
		return "down"
	case !l.Running:
		return "up without a carrier"
	}
	return "up"
}

// prefixLengths returns the prefix lengths of an interface's addresses, without
// link-local ones.
func prefixLengths(l *probe.Link) []string {
	var out []string
	for _, text := range l.Addresses {
		if p, err := netip.ParsePrefix(text); err == nil && !p.Addr().IsLinkLocalUnicast() {
			out = append(out, fmt.Sprintf("/%d", p.Bits()))
		}
	}
	slices.Sort(out)
	return out
}

// sysctls compares the sysctls of the pod, and of interfaces that still exist.
func (c *podPair) sysctls() {
	tuned := slices.ContainsFunc(c.was.Interfaces, func(n Interface) bool { return c.tunes(n.Network) })
	c.sysctlsOf(nil, tuned, "", c.was.Observed.Sysctls, c.now.Observed.Sysctls)
	for i := range c.was.Observed.Links {
		was := &c.was.Observed.Links[i]
		if now := c.now.Observed.link(c.newName(was.Name)); now != nil {
			n := c.attachment(was.Name)
			c.sysctlsOf(n, c.tunes(n.Network), " of "+was.Name, was.Sysctls, now.Sysctls)
		}
	}
}

// sysctlsOf compares the sysctls that both kernels have.
func (c *podPair) sysctlsOf(n *Interface, tuned bool, of string, was, now map[string]string) {
	code := SysctlOther
	if tuned {
		code = SysctlTuned
	}
	for _, name := range slices.Sorted(maps.Keys(was)) {
		if value, both := now[name]; both {
			c.changed(code, n, name+of, was[name], value)
		}
	}
}

// functions compares the settings of the pod's virtual functions: of interfaces that
// correspond, and of all others as a whole.
func (c *podPair) functions() {
	was, now := functionsByAddress(c.was.Observed.VFs), functionsByAddress(c.now.Observed.VFs)
	for _, p := range c.interfaces {
		a, b := functionOf(c.was, p.was), functionOf(c.now, p.now)
		wasVF, hadVF := was[a]
		nowVF, hasVF := now[b]
		if hadVF && hasVF {
			c.changed(FunctionOther, p.was, "the virtual function of "+p.was.label(), functionSettings(wasVF), functionSettings(nowVF))
			delete(was, a)
			delete(now, b)
		}
	}
	restWas, restNow := allSettings(was), allSettings(now)
	if len(restWas) == len(restNow) { // a different number is a difference of variables
		for i := range restWas {
			c.changed(FunctionOther, nil, "a virtual function", restWas[i], restNow[i])
		}
	}
}

func functionsByAddress(list []probe.VF) map[string]probe.VF {
	out := map[string]probe.VF{}
	for _, vf := range list {
		out[vf.PCI] = vf
	}
	return out
}

// functionOf returns the PCI address of an interface's device.
func functionOf(p *Pod, n *Interface) string {
	if n.Device != nil && n.Device.PCI != "" {
		return n.Device.PCI
	}
	if l := p.Observed.link(n.Name); l != nil {
		return l.PCI
	}
	return ""
}

func allSettings(of map[string]probe.VF) []string {
	var out []string
	for _, vf := range of {
		out = append(out, functionSettings(vf))
	}
	slices.Sort(out)
	return out
}

// functionSettings describes a function without its address and MAC.
func functionSettings(vf probe.VF) string {
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
