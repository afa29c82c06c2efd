package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// add records a difference of the pod, or of an interface of it unless n is nil.
func (c *podPair) add(code Code, n *Interface, was, now, format string, args ...any) {
	out := differenceOf(c.was, fmt.Sprintf(format, args...))
	out.Was, out.Now = was, now
	if c.now.Name != c.was.Name {
		out.NowPod = c.now.Name
	}
	if c.now.Node != c.was.Node {
		out.NowNode = c.now.Node
	}
	if n != nil {
		out.Interface, out.Network = n.Name, n.Network
	}
	c.comparison.add(code, out)
}

// changed records a difference if two values differ, with both in its message.
func (c *podPair) changed(code Code, n *Interface, what, was, now string) {
	if was != now {
		c.add(code, n, was, now, "%s was %s, and is %s", what, cmp.Or(was, "absent"), cmp.Or(now, "absent"))
	}
}

// compare compares the pods in every respect.
func (c *podPair) compare() {
	c.pod()
	c.networks()
	c.system()
	c.order()
	c.defaultNetwork()
	for _, i := range c.interfaces {
		c.comparison.summary.Interfaces++
		(&interfaceComparison{c, i.was, i.now}).compare()
	}
	routeReported := c.defaultRoute()
	c.variables()
	c.observations(routeReported)
}

// pod compares identity, node and host network.
func (c *podPair) pod() {
	was, now := c.was, c.now
	if was.UID != now.UID {
		c.add(PodRecreated, nil, was.UID, now.UID, "it was recreated")
	}
	c.changed(NodeOther, nil, "its node", was.Node, now.Node)
	c.changed(HostNetwork, nil, "hostNetwork", strconv.FormatBool(was.HostNetwork), strconv.FormatBool(now.HostNetwork))
}

// networks finds networks that the pod lost, got, or requests and lacks.
func (c *podPair) networks() {
	for _, n := range c.removed {
		c.add(NetworkMissing, n, n.label(), "", "it had %s%s", n.label(), c.why(n.Network))
	}
	for _, n := range c.added {
		c.add(NetworkAdded, n, "", n.label(), "it has %s, and did not have it before", n.label())
	}
	for _, l := range c.now.Lacking {
		same := func(o Lack) bool { return o.Network == l.Network }
		if slices.ContainsFunc(c.was.Lacking, same) || slices.ContainsFunc(c.removed, func(n *Interface) bool { return n.Network == l.Network }) {
			continue
		}
		n := &Interface{Network: l.Network, Name: l.Interface}
		c.add(NetworkMissing, n, "", l.State, "it requests %s%s", n.label(), c.why(l.Network))
	}
}

// why explains why the pod lacks a network, as far as that is known.
func (c *podPair) why(network string) string {
	for _, l := range c.now.Lacking {
		if l.Network == network {
			return fmt.Sprintf(", and lacks it now: %s: %s", l.State, cmp.Or(l.Reason, "no reason is known"))
		}
	}
	return ", and does not have it now"
}

// system records once that another system attaches the pod's networks.
func (c *podPair) system() {
	for _, p := range c.interfaces {
		if p.was.By != "" && p.now.By != "" && p.was.By != p.now.By {
			c.add(SystemOther, nil, string(p.was.By), string(p.now.By), "%s attached its networks, now %s does", p.was.By, p.now.By)
			return
		}
	}
}

// order compares the names and the order of interfaces.
func (c *podPair) order() {
	index := func(p interfacePair) int {
		return slices.IndexFunc(c.now.Interfaces, func(n Interface) bool { return n.Network == p.now.Network && n.Name == p.now.Name })
	}
	for _, p := range c.interfaces {
		if p.was.Name != p.now.Name {
			c.add(Renamed, p.was, p.was.Name, p.now.Name, "%s is %s now", p.was.label(), cmp.Or(p.now.Name, "without a name"))
		}
	}
	if !slices.IsSortedFunc(c.interfaces, func(a, b interfacePair) int { return index(a) - index(b) }) {
		was, now := listed(attached(c.was)), listed(attached(c.now))
		c.add(OrderOther, nil, was, now, "the networks were %s, and are %s", was, now)
	}
}

// defaultNetwork compares name and interface of the default network. Its addresses are
// different in each pod.
func (c *podPair) defaultNetwork() {
	was, now := defaultEntry(c.was), defaultEntry(c.now)
	if was == nil {
		return
	}
	if now == nil {
		c.add(DefaultOther, was, was.label(), "", "network-status does not have the default network any more")
		return
	}
	c.changed(DefaultOther, was, "the default network", was.label(), now.label())
}

// listed joins the labels of interfaces.
func listed(list []*Interface) string {
	names := make([]string, 0, len(list))
	for _, n := range list {
		names = append(names, n.label())
	}
	return strings.Join(names, ", ")
}
