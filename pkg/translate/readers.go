package translate

import (
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// annotationReaders are plugins, for interfaces or addresses, whose controllers
// read the networks annotation of pods themselves: without it they prepare
// nothing, and the plugin fails.
var annotationReaders = []string{"kube-ovn", "ovn-k8s-cni-overlay"}

// readersOf says who besides Multus reads the pod's annotation, so far as the
// input shows it.
func (p *planner) readersOf() []string {
	var out []string
	for _, s := range p.selections {
		n, _ := p.network(s.Network)
		for _, plugin := range annotationReaders {
			if n.ipam == plugin || slices.Contains(n.plugins, plugin) {
				out = append(out, fmt.Sprintf("the controller of plugin %s", plugin))
			}
		}
		if s.IPAMClaimReference != "" {
			out = append(out, "the plugin that serves its IPAMClaim")
		}
	}
	if p.env.policies[p.object.ref.Namespace] {
		out = append(out, "whoever enforces the namespace's MultiNetworkPolicies")
	}
	return sortedSet(out)
}

// keepsAnnotation reports a pod whose annotation cannot be dropped.
func (p *planner) keepsAnnotation() bool {
	readers := p.readersOf()
	for _, reader := range readers {
		p.add(AnnotationRead, p.annotationPath(attachment.NetworksAnnotation), p.doc.at(p.annotation), "%s reads it", reader)
	}
	return len(readers) > 0
}
