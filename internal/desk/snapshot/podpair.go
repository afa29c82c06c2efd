package snapshot

import "slices"

// interfacePair is an interface and its successor.
type interfacePair struct{ was, now *Interface }

// podPair is a pod and its successor, each in its snapshot.
type podPair struct {
	wasIn, nowIn *Snapshot
	was, now     *Pod
	// interfaces are the pairs of interfaces in the order of the first snapshot, without
	// the default network. removed and added are the interfaces without counterpart.
	interfaces     []interfacePair
	removed, added []*Interface
}

// newPodPair pairs the interfaces of two pods: those of the same network and name, then
// those of the same network.
func newPodPair(wasIn, nowIn *Snapshot, was, now *Pod) *podPair {
	p := &podPair{wasIn: wasIn, nowIn: nowIn, was: was, now: now, removed: attached(was), added: attached(now)}
	p.pairWhere(func(a, b *Interface) bool { return a.Name == b.Name })
	p.pairWhere(func(_, _ *Interface) bool { return true })
	at := func(i interfacePair) int {
		return slices.IndexFunc(was.Interfaces, func(n Interface) bool { return n.Network == i.was.Network && n.Name == i.was.Name })
	}
	slices.SortStableFunc(p.interfaces, func(a, b interfacePair) int { return at(a) - at(b) })
	return p
}

// pairWhere pairs the remaining interfaces of one network for which same reports true.
func (p *podPair) pairWhere(same func(a, b *Interface) bool) {
	p.removed = slices.DeleteFunc(p.removed, func(a *Interface) bool {
		i := slices.IndexFunc(p.added, func(b *Interface) bool { return a.Network == b.Network && same(a, b) })
		if i < 0 {
			return false
		}
		p.interfaces = append(p.interfaces, interfacePair{a, p.added[i]})
		p.added = slices.Delete(p.added, i, i+1)
		return true
	})
}

// observed reports whether the nodes of both pods observed them.
func (p *podPair) observed() bool { return p.was.Observed != nil && p.now.Observed != nil }

// attachment returns the attachment of an interface of the first pod. For another
// interface it returns one without a network.
func (p *podPair) attachment(name string) *Interface {
	for i := range p.was.Interfaces {
		if p.was.Interfaces[i].Name == name {
			return &p.was.Interfaces[i]
		}
	}
	return &Interface{Name: name}
}

// newName returns the present name of an interface of the first pod.
func (p *podPair) newName(name string) string {
	for _, i := range p.interfaces {
		if i.was.Name == name {
			return i.now.Name
		}
	}
	return name
}

// oldName returns the name that an interface of either pod has in the first snapshot.
func (p *podPair) oldName(of *Pod, name string) string {
	if of == p.now {
		for _, i := range p.interfaces {
			if i.now.Name == name {
				return i.was.Name
			}
		}
	}
	return name
}

// tunes reports whether the plugin tuning is in a network's chain, then or now.
func (p *podPair) tunes(network string) bool {
	for _, s := range []*Snapshot{p.wasIn, p.nowIn} {
		if n := s.network(network); n != nil && slices.Contains(n.Plugins, "tuning") {
			return true
		}
	}
	return false
}

// attached returns a pod's interfaces without the default network.
func attached(p *Pod) []*Interface {
	var out []*Interface
	for i := range p.Interfaces {
		if !p.Interfaces[i].Default {
			out = append(out, &p.Interfaces[i])
		}
	}
	return out
}

// defaultEntry returns the default network's interface in network-status, or nil.
func defaultEntry(p *Pod) *Interface {
	for i := range p.Interfaces {
		if p.Interfaces[i].Default {
			return &p.Interfaces[i]
		}
	}
	return nil
}
