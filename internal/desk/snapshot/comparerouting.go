package snapshot

import (
	"cmp"
	"fmt"
	"net/netip"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// The kernel's named tables, and the priorities of its own rules.
const (
	tableMain                       = 254
	tableLocal                      = 255
	ruleLocal, ruleMain, ruleOthers = 0, 32766, 32767
)

// routingComparison compares routes and rules. It leaves out whatever follows from an
// address, because addresses are compared by themselves.
type routingComparison struct {
	*podPair
	// missing are the interfaces that are recorded as missing.
	missing []string
	// routeReported is true if a difference of the default route is recorded already.
	routeReported bool
	// wasOwn and nowOwn map a pod's addresses to its interfaces, named as in the first
	// snapshot.
	wasOwn, nowOwn map[string]string
}

func newRoutingComparison(pair *podPair, missing []string, routeReported bool) *routingComparison {
	own := func(p *Pod) map[string]string {
		out := map[string]string{}
		for _, l := range p.Observed.Links {
			for _, text := range l.Addresses {
				address, _, _ := strings.Cut(text, "/")
				out[address] = pair.oldName(p, l.Name)
			}
		}
		return out
	}
	return &routingComparison{
		podPair: pair, missing: missing, routeReported: routeReported, wasOwn: own(pair.was), nowOwn: own(pair.now),
	}
}

// compare records missing and additional routes and rules.
func (c *routingComparison) compare() {
	was, now := c.routes(c.was, c.wasOwn), c.routes(c.now, c.nowOwn)
	for _, r := range without(was, now) {
		if !slices.Contains(c.missing, r.through) {
			c.addRoute(RouteMissing, r, r.text, "", "the route is missing: %s")
		}
	}
	for _, r := range without(now, was) {
		c.addRoute(RouteAdded, r, "", r.text, "the route is additional: %s")
	}
	wasRules, nowRules := c.rules(c.was, c.wasOwn), c.rules(c.now, c.nowOwn)
	for _, r := range without(wasRules, nowRules) {
		if !slices.Contains(c.missing, r.through) {
			c.add(RuleMissing, nil, r.text, "", "the rule is missing: %s", r.text)
		}
	}
	for _, r := range without(nowRules, wasRules) {
		c.add(RuleAdded, nil, "", r.text, "the rule is additional: %s", r.text)
	}
}

// addRoute records a route, unless it is the default route and a difference of that is
// recorded already.
func (c *routingComparison) addRoute(code Code, r line, was, now, format string) {
	if r.isDefault {
		if c.routeReported {
			return
		}
		code = DefaultRoute
	}
	c.add(code, r.of, was, now, format, r.text)
}

// line describes a route or a rule without the pod's own addresses.
type line struct {
	text      string
	isDefault bool
	// of is the attachment that the route belongs to, or nil.
	of *Interface
	// through is the interface that the route or rule needs, named as in the first
	// snapshot.
	through string
}

// without returns the lines of a that b does not have, or has less often.
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

// routes returns a pod's routes that do not follow from its addresses. Of the routes
// through the default network it returns the default route only: the others, and the
// gateway, depend on the node.
func (c *routingComparison) routes(p *Pod, own map[string]string) []line {
	var out []line
	for _, r := range p.Observed.Routes {
		to, err := netip.ParsePrefix(r.To)
		derived := r.Protocol == "kernel" || r.Protocol == "ra" || r.Table == tableLocal ||
			err == nil && (to.Addr().IsLinkLocalUnicast() || to.Addr().IsMulticast())
		switch {
		case derived:
		case r.Interface == p.defaultInterface():
			if r.To == "default" && r.Table == tableMain {
				out = append(out, line{text: "default through " + defaultNetworkName + family(r.IPv6), isDefault: true})
			}
		default:
			out = append(out, c.route(p, r, own))
		}
	}
	return out
}

// route describes a route.
func (c *routingComparison) route(p *Pod, r probe.Route, own map[string]string) line {
	words := []string{strings.TrimSpace(r.Type + " " + r.To + family(r.IPv6))}
	add := func(word, value string) {
		if value != "" {
			words = append(words, word+" "+value)
		}
	}
	name := c.oldName(p, r.Interface)
	add("via", r.Via)
	add("dev", name)
	add("src", addressName(own, r.Source))
	for _, hop := range r.Hops {
		add("nexthop", strings.TrimSpace(fmt.Sprintf("%s dev %s weight %d", hop.Via, c.oldName(p, hop.Interface), hop.Weight)))
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
	return line{text: strings.Join(words, " "), isDefault: r.To == "default" && r.Table == tableMain, of: c.attachment(name), through: name}
}

func family(ipv6 bool) string {
	if ipv6 {
		return " (IPv6)"
	}
	return ""
}

// rules returns a pod's rules without the kernel's own.
func (c *routingComparison) rules(p *Pod, own map[string]string) []line {
	var out []line
	for _, r := range p.Observed.Rules {
		if slices.Contains([]int{ruleLocal, ruleMain, ruleOthers}, r.Priority) && r.From == "" && r.To == "" && r.Mark == 0 && r.In == "" && r.Out == "" {
			continue
		}
		words := []string{fmt.Sprintf("%d:", r.Priority)}
		if r.Not {
			words = append(words, "not")
		}
		from := strings.TrimSuffix(strings.TrimSuffix(r.From, "/128"), "/32")
		if _, isOwn := own[from]; isOwn {
			words = append(words, "from "+addressName(own, from))
		} else {
			words = append(words, "from "+cmp.Or(r.From, "all"))
		}
		for _, part := range []struct{ word, value string }{
			{"to", r.To}, {"iif", c.oldName(p, r.In)}, {"oif", c.oldName(p, r.Out)},
		} {
			if part.value != "" {
				words = append(words, part.word+" "+part.value)
			}
		}
		if r.Mark != 0 {
			words = append(words, fmt.Sprintf("fwmark %#x/%#x", r.Mark, r.Mask))
		}
		out = append(out, line{text: strings.Join(append(words, fmt.Sprintf("table %d", r.Table)), " ") + family(r.IPv6), through: own[from]})
	}
	return out
}

// addressName replaces an address of the pod by the name of its interface.
func addressName(own map[string]string, address string) string {
	if name, found := own[address]; found {
		return "its address on " + name
	}
	return address
}

// defaultInterface returns the name of the pod's interface on the default network.
func (p *Pod) defaultInterface() string {
	if n := defaultEntry(p); n != nil && n.Name != "" {
		return n.Name
	}
	return "eth0"
}
