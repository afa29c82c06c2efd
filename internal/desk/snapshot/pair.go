package snapshot

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/utils/ptr"
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

// ofOne pairs the pods of one workload, and returns the pods without a successor. By one key after the other, a pod takes
// the first pod that is left with the same key, so that the time grows with the number of pods and not with its square.
func (out *pairing) ofOne(id identity, was, now []*Pod, taken map[*Pod]bool) []*Pod {
	keys := []func(*Pod) (key string, has bool){
		func(p *Pod) (string, bool) { return fmt.Sprint(ptr.Deref(p.Ordinal, 0)), p.Ordinal != nil },
	}
	if id.kind == "DaemonSet" {
		keys = append(keys, func(p *Pod) (string, bool) { return p.Node, true })
	} else {
		keys = append(keys,
			func(p *Pod) (string, bool) { return p.Node + " " + p.signature(), p.Ordinal == nil },
			func(p *Pod) (string, bool) { return p.signature(), p.Ordinal == nil },
			func(p *Pod) (string, bool) { return "", p.Ordinal == nil })
	}
	for _, of := range keys {
		left := map[string][]*Pod{}
		for _, p := range now {
			if key, has := of(p); has && !taken[p] {
				left[key] = append(left[key], p)
			}
		}
		was = slices.DeleteFunc(slices.Clone(was), func(p *Pod) bool {
			key, has := of(p)
			if !has || len(left[key]) == 0 {
				return false
			}
			out.matches, taken[left[key][0]] = append(out.matches, match{p, left[key][0]}), true
			left[key] = left[key][1:]
			return true
		})
	}
	return was
}

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
