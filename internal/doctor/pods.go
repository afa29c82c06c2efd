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

// policies names the pods whose networks MultiNetworkPolicies do not see.
func policies(c *Capabilities) finding {
	p := c.Policies
	switch {
	case c.gap(PartPolicies, "") != nil:
		return missing(c, PartPolicies, "")
	case p == nil:
		return nothing
	case len(p.Unseen) > 0:
		return says(Warning, "Install nadra's webhook, which adds the annotation, and recreate these pods; or write it into their templates (kubectl nadra scan says it: NADRA-038).",
			"%s, and %s with networks by a claim without the annotation: %s", plural(p.Count, "MultiNetworkPolicy", "MultiNetworkPolicies"), count(len(p.Unseen), "pod"), list(p.Unseen))
	}
	return fine("%s; every pod with networks by a claim has the annotation", plural(p.Count, "MultiNetworkPolicy", "MultiNetworkPolicies"))
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
	case c.gap(PartWhereabouts, "") != nil:
		return missing(c, PartWhereabouts, "")
	case w == nil && used:
		return says(Warning, "Install its CustomResourceDefinitions, if it does not use etcd.", "networks use it, and the cluster has no IPPools")
	case w == nil:
		return nothing
	case len(w.Blind) > 0:
		return says(Warning, "Give them the verb get for pods (docs/cni/ipam.md has the command).",
			"its reconciler may not get pods, and so frees the addresses of pods that are just being attached: service account %s", list(w.Blind))
	}
	return says(Note, "Keep its controller, or the reconciler of its nodes: it frees the addresses of pods that are gone.", "%s with %s given out, %s over all of them",
		count(w.Pools, "pool"), plural(w.Addresses, "address", "addresses"), count(w.Reservations, "reservation"))
}
