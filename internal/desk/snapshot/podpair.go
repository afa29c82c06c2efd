package snapshot

import "slices"

// interfacePair is an interface and its successor.
type interfacePair struct{ was, now *Interface }

// podPair compares a pod with its successor.
type podPair struct {
	comparison *comparison
	was, now   *Pod
	// interfaces are the pairs of interfaces in the order of the first snapshot, without
	// the default network. removed and added are the interfaces without counterpart.
	interfaces     []interfacePair
	removed, added []*Interface
}

// newPodPair pairs the interfaces of two pods: those of the same network and name, then
// those of the same network.
func newPodPair(c *comparison, was, now *Pod) *podPair {
	p := &podPair{comparison: c, was: was, now: now}
	before, after, pairs := attached(was), attached(now), map[*Interface]*Interface{}
	for _, key := range []func(*Interface) [2]string{
		func(i *Interface) [2]string { return [2]string{i.Network, i.Name} },
		func(i *Interface) [2]string { return [2]string{i.Network} },
	} {
		left := map[[2]string][]*Interface{}
		for _, b := range after {
			if pairs[b] == nil {
				left[key(b)] = append(left[key(b)], b)
			}
		}
		for _, a := range before {
			if of := left[key(a)]; len(of) > 0 && pairs[a] == nil {
				pairs[a], pairs[of[0]], left[key(a)] = of[0], a, of[1:]
			}
		}
	}
	for _, a := range before {
		if b := pairs[a]; b != nil {
			p.interfaces = append(p.interfaces, interfacePair{a, b})
		} else {
			p.removed = append(p.removed, a)
		}
	}
	p.added = slices.DeleteFunc(after, func(b *Interface) bool { return pairs[b] != nil })
	return p
}

// observed reports whether the nodes of both pods observed them.
func (c *podPair) observed() bool { return c.was.Observed != nil && c.now.Observed != nil }

// attachment returns the attachment of an interface of the first pod. For another
// interface it returns one without a network.
func (c *podPair) attachment(name string) *Interface {
	for i := range c.was.Interfaces {
		if c.was.Interfaces[i].Name == name {
			return &c.was.Interfaces[i]
		}
	}
	return &Interface{Name: name}
}

// newName returns the present name of an interface of the first pod.
func (c *podPair) newName(name string) string {
	for _, i := range c.interfaces {
		if i.was.Name == name {
			return i.now.Name
		}
	}
	return name
}

// oldName returns the name that an interface of either pod has in the first snapshot.
func (c *podPair) oldName(of *Pod, name string) string {
	if of == c.now {
		for _, i := range c.interfaces {
			if i.now.Name == name {
				return i.was.Name
			}
		}
	}
	return name
}

// tunes reports whether the plugin tuning is in a network's chain, then or now.
func (c *podPair) tunes(network string) bool {
	for _, s := range []*indexed{c.comparison.was, c.comparison.now} {
		if n := s.networks[network]; n != nil && slices.Contains(n.Plugins, "tuning") {
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
