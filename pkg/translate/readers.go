package translate

import (
	"fmt"
	"slices"
)

// annotationReaders are plugins, for interfaces or addresses, whose controllers read the
// networks annotation of pods. Without it they prepare nothing, and the plugin fails.
var annotationReaders = []string{"kube-ovn", "ovn-k8s-cni-overlay"}

const policyController = "the controller of the namespace's MultiNetworkPolicies"

// readers names the programs besides Multus that read the pod's annotation, as far as the input
// shows.
func (r *request) readers() []string {
	var out []string
	for _, s := range r.selections {
		n, _ := r.network(s.Network)
		for _, plugin := range annotationReaders {
			if n.ipam == plugin || slices.Contains(n.plugins, plugin) {
				out = append(out, fmt.Sprintf("the controller of plugin %s", plugin))
			}
		}
		if s.IPAMClaimReference != "" {
			out = append(out, "the plugin that serves its IPAMClaim")
		}
	}
	if r.env.policies[r.object.ref.Namespace] {
		out = append(out, policyController)
	}
	return sortedSet(out)
}

// checkMove reports the readers of an annotation that gets another name.
func (r *request) checkMove() {
	for _, reader := range r.readers() {
		r.add(AnnotationMoved, r.path(), r.at(), "%s reads it", reader)
	}
}

// keepsAnnotation reports the readers of an annotation that was to be dropped, and whether
// there are any.
func (r *request) keepsAnnotation() bool {
	readers := r.readers()
	for _, reader := range readers {
		r.add(AnnotationRead, r.path(), r.at(), "%s reads it", reader)
	}
	return len(readers) > 0
}
