package doctor

import (
	"fmt"
	"maps"
	"slices"
)

func staticPods(c *Capabilities) finding {
	if g := c.gap(PartStaticPods, ""); g != nil {
		return unread(g)
	}
	if len(c.StaticPods) == 0 {
		return fine("none asks for networks")
	}
	var names []string
	for _, p := range c.StaticPods {
		names = append(names, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, p.Networks))
	}
	return says(Warning, "Run them from a DaemonSet; or remove the annotation; or except them by name (--exempt-pods), and they start without the networks; or leave their nodes to Multus.", "%s", list(names))
}

// ipamPlugins says which there are, by how many networks use them.
func ipamPlugins(c *Capabilities) finding {
	if g := c.gap(PartNetworks, ""); g != nil {
		return unread(g)
	}
	users := map[string]int{}
	for _, n := range c.Networks {
		for _, ipam := range n.IPAM {
			users[ipam]++
		}
	}
	var out []string
	for _, name := range slices.Sorted(maps.Keys(users)) {
		out = append(out, fmt.Sprintf("%s (%s)", name, count(users[name], "network")))
	}
	if len(out) == 0 {
		return fine("no network gives addresses")
	}
	return fine("%s", list(out))
}

func whereabouts(c *Capabilities) finding {
	w := c.Whereabouts
	used := slices.ContainsFunc(c.Networks, func(n Network) bool { return slices.Contains(n.IPAM, "whereabouts") })
	switch {
	case w == nil && c.gap(PartWhereabouts, "") != nil:
		return missing(c, PartWhereabouts, "")
	case w == nil && used:
		return says(Warning, "Install its CustomResourceDefinitions, if it does not use etcd.", "networks use it, and the cluster has no IPPools")
	case w == nil:
		return nothing
	}
	return says(Note, "Keep its controller, or the reconciler of its nodes: it frees the addresses of pods that are gone.", "%s with %s given out, %s over all of them",
		count(w.Pools, "pool"), plural(w.Addresses, "address", "addresses"), count(w.Reservations, "reservation"))
}
