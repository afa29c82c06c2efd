package translate

import (
	"fmt"
	"slices"
)

const policyController = "the controller of the namespace's MultiNetworkPolicies"

// readers names the programs besides Multus that read the pod's annotation, as far as the input shows: those
// that were found in the cluster, and those without which plugins and policies of the input do not work.
func (r *request) readers() []string {
	var out, plugins []string
	for _, s := range r.selections {
		n, _ := r.network(s.Network)
		plugins = append(append(plugins, n.plugins...), n.ipam)
		if s.IPAMClaimReference != "" {
			out = append(out, "the plugin that serves its IPAMClaim")
		}
	}
	policies := r.env.policies[r.object.ref.Namespace]
	named := map[string]bool{} // plugins, and the scope of policies
	for _, reader := range r.env.options.Readers {
		if reader.Concerns(plugins, policies) {
			p, _ := Of(reader.Program)
			for _, key := range slices.Concat(p.Plugins, []string{string(p.Scope)}) {
				named[key] = true
			}
			out = append(out, reader.String())
		}
	}
	for _, plugin := range Plugins() {
		if slices.Contains(plugins, plugin) && !named[plugin] {
			out = append(out, fmt.Sprintf("the controller of plugin %s", plugin))
		}
	}
	if policies && !named[string(Policies)] {
		out = append(out, policyController)
	}
	return sortedSet(out)
}

// checkMove reports the readers of an annotation that gets another name.
func (r *request) checkMove() {
	for _, reader := range r.readers() {
		r.addAt(AnnotationMoved, r.annotation, "%s reads it", reader)
	}
}

// keepsAnnotation reports the readers of an annotation that was to be dropped, and whether
// there are any.
func (r *request) keepsAnnotation() bool {
	readers := r.readers()
	for _, reader := range readers {
		r.addAt(AnnotationRead, r.annotation, "%s reads it", reader)
	}
	return len(readers) > 0
}
