package snapshot

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// podComparison is one of two pods.
type podComparison struct {
	*comparison
	was, now *Pod
	// pairs are interfaces that stand for each other, without the default one.
	pairs []pairOf
	// absent are names of interfaces of the snapshot that are told to be missing.
	absent []string
	// defaultTold says that the default route is told to be another one.
	defaultTold bool
}

// pairOf are two interfaces that stand for each other.
type pairOf struct{ was, now *Interface }

// add adds a difference of the pod, of an interface of it if that is not nil.
func (c *podComparison) add(code Code, n *Interface, was, now, format string, args ...any) {
	d := Difference{
		Namespace: c.was.Namespace, Workload: c.was.Workload, Pod: c.was.Name, Node: c.was.Node,
		Was: was, Now: now, Message: fmt.Sprintf(format, args...),
	}
	if c.now.Name != c.was.Name {
		d.NowPod = c.now.Name
	}
	if c.now.Node != c.was.Node {
		d.NowNode = c.now.Node
	}
	if n != nil {
		d.Interface, d.Network = n.Name, n.Network
	}
	c.comparison.add(code, d)
}

// changed adds a difference where two values differ, with both in its message.
func (c *podComparison) changed(code Code, n *Interface, what, was, now string) {
	if was != now {
		c.add(code, n, was, now, "%s was %s, and is %s", what, cmp.Or(was, "not there"), cmp.Or(now, "not there"))
	}
}

func (c *podComparison) compare() {
	if c.was.UID != c.now.UID {
		c.add(PodAnew, nil, c.was.UID, c.now.UID, "it was made anew")
	}
	c.changed(NodeOther, nil, "its node", c.was.Node, c.now.Node)
	c.changed(HostNetwork, nil, "hostNetwork", strconv.FormatBool(c.was.HostNetwork), strconv.FormatBool(c.now.HostNetwork))
	c.pairInterfaces()
	c.system()
	c.order()
	c.defaultNetwork()
	for _, p := range c.pairs {
		c.summary.Interfaces++
		c.interfaces(p)
	}
	c.defaultRoute()
	c.variables()
	c.seen()
}

// pairInterfaces finds for each interface the one of the same network and name;
// else one of the same network.
func (c *podComparison) pairInterfaces() {
	was, now := attached(c.was), attached(c.now)
	match := func(same func(a, b *Interface) bool) {
		was = slices.DeleteFunc(was, func(a *Interface) bool {
			i := slices.IndexFunc(now, func(b *Interface) bool { return a.Network == b.Network && same(a, b) })
			if i < 0 {
				return false
			}
			c.pairs = append(c.pairs, pairOf{a, now[i]})
			now = slices.Delete(now, i, i+1)
			return true
		})
	}
	match(func(a, b *Interface) bool { return a.Name == b.Name })
	match(func(_, _ *Interface) bool { return true })
	// In the order of before, for what follows.
	at := func(p pairOf) int {
		return slices.IndexFunc(c.was.Interfaces, func(n Interface) bool { return n.Network == p.was.Network && n.Name == p.was.Name })
	}
	slices.SortStableFunc(c.pairs, func(a, b pairOf) int { return at(a) - at(b) })
	for _, n := range was {
		c.absent = append(c.absent, n.Name)
		c.add(NetworkMissing, n, n.label(), "", "it had %s%s", n.label(), c.why(n.Network))
	}
	for _, n := range now {
		c.add(NetworkAdded, n, "", n.label(), "it has %s, and had not", n.label())
	}
	for _, l := range c.now.Lacking {
		same := func(o Lack) bool { return o.Network == l.Network }
		if slices.ContainsFunc(c.was.Lacking, same) || slices.ContainsFunc(was, func(n *Interface) bool { return n.Network == l.Network }) {
			continue
		}
		n := &Interface{Network: l.Network, Name: l.Interface}
		c.add(NetworkMissing, n, "", l.State, "it asks for %s%s", n.label(), c.why(l.Network))
	}
}

// attached are a pod's interfaces but that of the default network.
func attached(p *Pod) []*Interface {
	var out []*Interface
	for i := range p.Interfaces {
		if !p.Interfaces[i].Default {
			out = append(out, &p.Interfaces[i])
		}
	}
	return out
}

// why says what keeps a network from the pod, where that is known.
func (c *podComparison) why(network string) string {
	for _, l := range c.now.Lacking {
		if l.Network == network {
			return fmt.Sprintf(", and lacks it now: %s: %s", l.State, cmp.Or(l.Reason, "no reason is told"))
		}
	}
	return ", and does not have it now"
}

// system says once who attaches the pod's networks now.
func (c *podComparison) system() {
	for _, p := range c.pairs {
		if p.was.By != "" && p.now.By != "" && p.was.By != p.now.By {
			c.add(SystemOther, nil, string(p.was.By), string(p.now.By), "its networks were attached by %s, and are by %s", p.was.By, p.now.By)
			return
		}
	}
}

func (c *podComparison) order() {
	index := func(p pairOf) int {
		return slices.IndexFunc(c.now.Interfaces, func(n Interface) bool { return n.Network == p.now.Network && n.Name == p.now.Name })
	}
	for _, p := range c.pairs {
		if p.was.Name != p.now.Name {
			c.add(Renamed, p.was, p.was.Name, p.now.Name, "%s is %s now", p.was.label(), cmp.Or(p.now.Name, "without a name"))
		}
	}
	if !slices.IsSortedFunc(c.pairs, func(a, b pairOf) int { return index(a) - index(b) }) {
		was, now := listed(attached(c.was)), listed(attached(c.now))
		c.add(OrderOther, nil, was, now, "the networks were %s, and are %s", was, now)
	}
}

func listed(list []*Interface) string {
	names := make([]string, 0, len(list))
	for _, n := range list {
		names = append(names, n.label())
	}
	return strings.Join(names, ", ")
}

// defaultEntry is what network-status tells of the default network; nil for
// nothing.
func defaultEntry(p *Pod) *Interface {
	for i := range p.Interfaces {
		if p.Interfaces[i].Default {
			return &p.Interfaces[i]
		}
	}
	return nil
}

// defaultNetwork compares what is told of it. Its addresses are of each pod.
func (c *podComparison) defaultNetwork() {
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
