package doctor

import (
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// staticPods checks for static pods that ask for networks.
func staticPods(c *Capabilities) result {
	if len(c.StaticPods) == 0 {
		return fine("no static pod asks for networks")
	}
	if c.Beside() {
		return fine("Multus attaches the networks of %s, nadra those of %s, by annotation %s",
			words.Count(len(c.StaticPods)-own(c.StaticPods), "static pod"), words.Count(own(c.StaticPods), "static pod"), attachment.OwnNetworksAnnotation)
	}
	var names []string
	for _, p := range c.StaticPods {
		names = append(names, fmt.Sprintf("%s/%s (%s)", p.Namespace, p.Name, p.Networks))
	}
	return found(warning, "On nadra's nodes they are attached without a claim, unknown to the scheduler (--unclaimed=attach). Where that is not enough, run them from a DaemonSet, or leave their nodes to Multus.", "%s", list(names))
}

// own counts static pods that only nadra attaches.
func own(pods []StaticPod) (n int) {
	for _, p := range pods {
		if p.Own {
			n++
		}
	}
	return n
}

// policies checks for pods whose networks MultiNetworkPolicies do not apply to.
func policies(c *Capabilities) result {
	p := c.Policies
	switch {
	case p == nil:
		return nothing
	case c.Beside():
		return unseenBeside(p)
	case len(p.Unseen) > 0:
		return found(warning, "Install nadra's webhook, which adds the annotation, and recreate these pods; or add the annotation to their templates, as finding NADRA-038 of kubectl nadra scan shows.",
			"%s, and %s with networks by a claim without the annotation: %s", words.Count(p.Count, "MultiNetworkPolicy"), words.Count(len(p.Unseen), "pod"), list(p.Unseen))
	}
	return fine("%s; every pod with networks by a claim has the annotation", words.Count(p.Count, "MultiNetworkPolicy"))
}

// whereabouts checks the state of the IPAM plugin whereabouts.
func whereabouts(c *Capabilities) result {
	w := c.Whereabouts
	used := slices.ContainsFunc(c.Networks, func(n Network) bool { return slices.Contains(n.IPAM, attachment.Whereabouts) })
	switch {
	case w == nil && used:
		return found(warning, "Install whereabouts' CustomResourceDefinitions, unless it uses etcd.", "networks use whereabouts, and the cluster has no IPPools")
	case w == nil:
		return nothing
	case len(w.Blind) > 0:
		return found(warning, "Give the service accounts the verb get for pods (docs/cni/whereabouts.md has the command).",
			"its reconciler may not get pods, so it frees the addresses of pods whose networks are being attached: service account %s", list(w.Blind))
	}
	return found(info, "Keep whereabouts' controller, or the reconciler on its nodes.", "its controller or reconciler frees the addresses of deleted pods, also of nadra's")
}
