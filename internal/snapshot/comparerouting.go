package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// The tables of the kernel that have names, and the priorities of the rules that
// it makes itself.
const (
	tableMain                       = 254
	tableLocal                      = 255
	ruleLocal, ruleMain, ruleOthers = 0, 32766, 32767
)

// routing compares routes and rules. What follows from an address is compared
// with the addresses.
func (c *podComparison) routing() {
	was, now := c.routes(c.was), c.routes(c.now)
	for _, r := range without(was, now) {
		if !slices.Contains(c.absent, r.through) { // which is told already
			c.routeOtherwise(RouteMissing, r, "the route is missing: %s")
		}
	}
	for _, r := range without(now, was) {
		c.routeOtherwise(RouteAdded, r, "the route is additional: %s")
	}
	wasRules, nowRules := c.rules(c.was), c.rules(c.now)
	for _, r := range without(wasRules, nowRules) {
		if slices.Contains(c.absent, r.through) {
			continue
		}
		c.add(RuleMissing, nil, r.text, "", "the rule is missing: %s", r.text)
	}
	for _, r := range without(nowRules, wasRules) {
		c.add(RuleAdded, nil, "", r.text, "the rule is additional: %s", r.text)
	}
}

// routeOtherwise tells of one route. Where the default route goes may be told
// already, by what status has.
func (c *podComparison) routeOtherwise(code Code, r line, format string) {
	if r.isDefault {
		if c.defaultTold {
			return
		}
		code = DefaultRoute
	}
	was, now := r.text, ""
	if code == RouteAdded {
		was, now = now, was
	}
	c.add(code, r.of, was, now, format, r.text)
}

// line is a route or a rule in words that do not depend on which addresses
// the pod happens to have.
type line struct {
	text      string
	isDefault bool
	// of is the attachment that it is about; nil for none.
	of *Interface
	// through is the interface that it needs, as the snapshot calls it.
	through string
}

// without are those lines of a that b does not have, or not as often.
func without(a, b []line) []line {
	left := map[string]int{}
	for _, l := range b {
		left[l.text]++
	}
	var out []line
	for _, l := range a {
		if left[l.text]--; left[l.text] < 0 {
			out = append(out, l)
		}
	}
	return out
}

// routes are those of a pod that do not follow from its addresses. Of those
// through the default network only the default route counts: the others, and
// the gateway, are the node's.
func (c *podComparison) routes(p *Pod) []line {
	addresses := c.ownAddresses(p)
	var out []line
	for _, r := range p.Seen.Routes {
		to, err := netip.ParsePrefix(r.To)
		derived := r.Protocol == "kernel" || r.Protocol == "ra" || r.Table == tableLocal ||
			err == nil && (to.Addr().IsLinkLocalUnicast() || to.Addr().IsMulticast())
		switch {
		case derived:
		case r.Interface == p.defaultInterface():
			if r.To == "default" && r.Table == tableMain {
				out = append(out, line{text: "default through the default network" + family(r.IPv6), isDefault: true})
			}
		default:
			out = append(out, c.route(p, r, addresses))
		}
	}
	return out
}

func (c *podComparison) route(p *Pod, r probe.Route, addresses map[string]string) line {
	words := []string{strings.TrimSpace(r.Type + " " + r.To + family(r.IPv6))}
	add := func(word, value string) {
		if value != "" {
			words = append(words, word+" "+value)
		}
	}
	name := c.nameBefore(p, r.Interface)
	add("via", r.Via)
	add("dev", name)
	add("src", own(addresses, r.Source))
	for _, hop := range r.Hops {
		add("nexthop", strings.TrimSpace(fmt.Sprintf("%s dev %s weight %d", hop.Via, c.nameBefore(p, hop.Interface), hop.Weight)))
	}
	if r.Table != tableMain {
		add("table", fmt.Sprint(r.Table))
	}
	if r.Metric != 0 {
		add("metric", fmt.Sprint(r.Metric))
	}
	if r.MTU != 0 {
		add("mtu", fmt.Sprint(r.MTU))
	}
	return line{text: strings.Join(words, " "), isDefault: r.To == "default" && r.Table == tableMain, of: c.reported(name), through: name}
}

func family(ipv6 bool) string {
	if ipv6 {
		return " (IPv6)"
	}
	return ""
}

// rules are those of a pod that the kernel has not made itself.
func (c *podComparison) rules(p *Pod) []line {
	addresses := c.ownAddresses(p)
	var out []line
	for _, r := range p.Seen.Rules {
		if slices.Contains([]int{ruleLocal, ruleMain, ruleOthers}, r.Priority) && r.From == "" && r.To == "" && r.Mark == 0 && r.In == "" && r.Out == "" {
			continue
		}
		words := []string{fmt.Sprintf("%d:", r.Priority)}
		if r.Not {
			words = append(words, "not")
		}
		from := strings.TrimSuffix(strings.TrimSuffix(r.From, "/128"), "/32")
		if _, isOwn := addresses[from]; isOwn {
			words = append(words, "from "+own(addresses, from))
		} else {
			words = append(words, "from "+cmp.Or(r.From, "all"))
		}
		for _, part := range []struct{ word, value string }{
			{"to", r.To}, {"iif", c.nameBefore(p, r.In)}, {"oif", c.nameBefore(p, r.Out)},
		} {
			if part.value != "" {
				words = append(words, part.word+" "+part.value)
			}
		}
		if r.Mark != 0 {
			words = append(words, fmt.Sprintf("fwmark %#x/%#x", r.Mark, r.Mask))
		}
		out = append(out, line{text: strings.Join(append(words, fmt.Sprintf("table %d", r.Table)), " ") + family(r.IPv6), through: addresses[from]})
	}
	return out
}

// ownAddresses are the interfaces of a pod's addresses, as the snapshot calls
// them: which addresses it has is compared elsewhere.
func (c *podComparison) ownAddresses(p *Pod) map[string]string {
	out := map[string]string{}
	for _, l := range p.Seen.Links {
		for _, text := range l.Addresses {
			address, _, _ := strings.Cut(text, "/")
			out[address] = c.nameBefore(p, l.Name)
		}
	}
	return out
}

// own is an address in words, where it is one of the pod's.
func own(addresses map[string]string, address string) string {
	if name, found := addresses[address]; found {
		return "its address on " + name
	}
	return address
}

// defaultInterface is the one on the default network.
func (p *Pod) defaultInterface() string {
	if n := defaultEntry(p); n != nil && n.Name != "" {
		return n.Name
	}
	return "eth0"
}

// nameBefore is what an interface of a pod is called in the snapshot.
func (c *podComparison) nameBefore(p *Pod, name string) string {
	if p == c.now {
		for _, pair := range c.pairs {
			if pair.now.Name == name {
				return pair.was.Name
			}
		}
	}
	return name
}
