package translate

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
)

// ClusterRange is a range of addresses that the pods of a cluster reach by eth0.
type ClusterRange struct {
	Prefix netip.Prefix
	// Of is what has the addresses, such as "services".
	Of string
}

// RangeOf returns the range of a text, which is an address or has a prefix length. found is false for any
// other text.
func RangeOf(text, of string) (r ClusterRange, found bool) {
	if p, err := netip.ParsePrefix(text); err == nil {
		return ClusterRange{p.Masked(), of}, true
	}
	a, err := netip.ParseAddr(text)
	if err != nil {
		return ClusterRange{}, false
	}
	return ClusterRange{netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen()), of}, true
}

// hazard is a property of a valid network that may harm its pods.
type hazard struct {
	code    Code
	message string
}

// hazards returns what may harm the pods of a network: addresses that several nodes hand out, and routes to
// what pods reach by eth0.
func (e *environment) hazards(n network) []hazard {
	var out []hazard
	for _, master := range n.localRanges {
		if len(e.options.Nodes) == 0 || e.nodesWith(master) > 1 {
			out = append(out, hazard{RangeOnEachNode, fmt.Sprintf("each node hands out the addresses of its IPAM host-local on master %s", master)})
		}
	}
	for _, route := range n.routes {
		var covered []string
		for _, r := range e.options.ClusterRanges {
			if route.Overlaps(r.Prefix) {
				covered = append(covered, fmt.Sprintf("%s (%s)", r.Of, strings.TrimSuffix(r.Prefix.String(), fmt.Sprintf("/%d", r.Prefix.Addr().BitLen()))))
			}
		}
		if len(covered) > 0 {
			out = append(out, hazard{RouteCoversCluster, fmt.Sprintf("its route %s covers %s", route, firstNames(sortedSet(covered)))})
		}
	}
	return out
}

// nodesWith returns the number of inspected nodes with an interface.
func (e *environment) nodesWith(link string) (n int) {
	for _, f := range e.options.Nodes {
		if slices.Contains(f.Interfaces, link) {
			n++
		}
	}
	return n
}

// checkHazards reports what may harm the pods of the network, at the given path.
func (n *inputNetwork) checkHazards(e *environment, at Path) {
	if n.blocked != nil {
		return
	}
	for _, h := range e.hazards(n.network) {
		n.add(h.code, at, n.place(at), "%s", h.message)
	}
}

// checkHazards reports them for a network that is not in the input, which has no findings of its own.
func (r podRules) checkHazards(selection int, n network) {
	ref := r.selections[selection].Network
	if _, found := r.env.networks[ref]; found && !r.env.present[ref] {
		return
	}
	for _, h := range r.env.hazards(n) {
		r.addFor(selection, h.code, "%s: %s", ref, h.message)
	}
}
