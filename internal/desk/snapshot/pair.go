package snapshot

import (
	"fmt"
	"slices"
	"strings"
)

// match is a pod and its successor.
type match struct{ was, now *Pod }

// identity identifies a workload, or a pod without one: what a pod has in common with its successor.
type identity struct{ namespace, kind, name string }

func (p *Pod) identity() identity {
	if p.Workload == nil {
		return identity{p.Namespace, "Pod", p.Name}
	}
	return identity{p.Namespace, p.Workload.Kind, p.Workload.Name}
}

// pairing pairs the pods of two snapshots.
type pairing struct {
	matches        []match
	missing, added []*Pod
}

// pair finds the successor of each pod: the pod of the same name; else a pod of the same
// workload with the same ordinal or, for a DaemonSet, on the same node; else any pod of the
// same workload, preferably one with the same signature.
func pair(was, now []*Pod) pairing {
	var out pairing
	left := map[identity][]*Pod{} // of now
	named := map[string]*Pod{}
	for _, p := range now {
		named[p.String()] = p
	}
	taken := map[*Pod]bool{}
	rest := map[identity][]*Pod{}
	var order []identity
	for _, p := range was {
		if successor := named[p.String()]; successor != nil {
			out.matches, taken[successor] = append(out.matches, match{p, successor}), true
			continue
		}
		id := p.identity()
		if rest[id] == nil {
			order = append(order, id)
		}
		rest[id] = append(rest[id], p)
	}
	for _, p := range now {
		if !taken[p] {
			left[p.identity()] = append(left[p.identity()], p)
		}
	}
	for _, id := range order {
		missing := out.ofOne(id, rest[id], left[id], taken)
		out.missing = append(out.missing, missing...)
	}
	for _, p := range now {
		if !taken[p] {
			out.added = append(out.added, p)
		}
	}
	return out
}

// ofOne pairs the pods of one workload, and returns the pods without a successor.
func (out *pairing) ofOne(id identity, was, now []*Pod, taken map[*Pod]bool) []*Pod {
	tests := []func(a, b *Pod) bool{
		func(a, b *Pod) bool { return a.Ordinal != nil && b.Ordinal != nil && *a.Ordinal == *b.Ordinal },
	}
	if id.kind == "DaemonSet" {
		tests = append(tests, func(a, b *Pod) bool { return a.Node == b.Node })
	} else {
		tests = append(tests,
			func(a, b *Pod) bool {
				return unnumbered(a, b) && a.Node == b.Node && a.signature() == b.signature()
			},
			func(a, b *Pod) bool { return unnumbered(a, b) && a.signature() == b.signature() },
			unnumbered)
	}
	for _, same := range tests {
		was = slices.DeleteFunc(slices.Clone(was), func(a *Pod) bool {
			i := slices.IndexFunc(now, func(b *Pod) bool { return !taken[b] && same(a, b) })
			if i >= 0 {
				out.matches, taken[now[i]] = append(out.matches, match{a, now[i]}), true
			}
			return i >= 0
		})
	}
	return was
}

// unnumbered reports whether neither pod has an ordinal.
func unnumbered(a, b *Pod) bool { return a.Ordinal == nil && b.Ordinal == nil }

// signature describes what equal pods of a workload have in common.
func (p *Pod) signature() string {
	if p.sign != "" {
		return p.sign
	}
	var b strings.Builder
	for _, n := range p.Interfaces {
		if n.Default {
			continue
		}
		fmt.Fprintf(&b, "%s|%s|%d|%t;", n.Network, n.Name, n.MTU, len(n.Gateways) > 0)
		if a := n.Requested; a != nil {
			fmt.Fprintf(&b, "%s|%s|%s;", a.MAC, strings.Join(a.IPs, ","), a.DeviceID)
		}
	}
	for _, l := range p.Lacking {
		fmt.Fprintf(&b, "-%s;", l.Network)
	}
	p.sign = b.String() + "."
	return p.sign
}
