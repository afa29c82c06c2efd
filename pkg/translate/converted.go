package translate

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Pods may have claims already: those of an earlier conversion, or some that
// were written by hand.

// ours is the form of templateName.
var ours = regexp.MustCompile(`^` + templatePrefix + `(.*-)?[0-9a-f]{10}$`)

// MadeTemplate reports whether a template's name is one that a conversion gives.
func MadeTemplate(name string) bool { return ours.MatchString(name) }

// ownClaim is an entry of a pod's spec.resourceClaims that a conversion made.
type ownClaim struct {
	path           Path
	node           *yaml.Node
	name, template string
}

func (p pod) ownClaims() []ownClaim {
	var out []ownClaim
	for i, item := range items(get(p.template, "spec", "resourceClaims")) {
		if template := str(get(item, "resourceClaimTemplateName")); ours.MatchString(template) {
			path := p.at.Child("spec", "resourceClaims").Index(i)
			out = append(out, ownClaim{path, item, str(get(item, "name")), template})
		}
	}
	return out
}

// planClaimAlone is for a pod without the annotation that has the claims of a
// conversion: they are what it asks for. That is what becomes of dropping the
// annotation; who removes it by hand may have meant otherwise.
func (p *planner) planClaimAlone() plan {
	var out plan
	if p.env.unseen(p.pod) {
		out.networks, out.features = p.planUnseen()
	}
	for _, c := range p.pod.ownClaims() {
		template := p.env.template(p.object.ref.Namespace, c.template)
		if template == nil {
			p.add(TemplateNotInInput, c.path, p.doc.at(c.node), "%s/%s is not in the input", p.object.ref.Namespace, c.template)
		} else {
			for _, s := range selectionsOf(template) {
				out.networks = append(out.networks, s.Network.String())
				out.features = append(out.features, featuresOf(s)...)
			}
		}
		if !p.env.options.DropAnnotation {
			p.add(ClaimAlone, c.path, p.doc.at(c.node), "template %s says what it gets", c.template)
		}
	}
	return out
}

// selectionsOf are those that a template of a conversion was made of.
func selectionsOf(template *resourceapi.ResourceClaimTemplateSpec) []attachment.Selection {
	var out []attachment.Selection
	for _, c := range template.Spec.Devices.Config {
		if c.Opaque == nil || c.Opaque.Driver != v1alpha1.DriverName {
			continue
		}
		if config, err := v1alpha1.Decode(c.Opaque.Parameters.Raw); err == nil && config.Network != nil {
			out = append(out, attachment.FromConfig(*config))
		}
	}
	return out
}

// checkMatchedBefore is for pods whose annotation has changed since they were
// converted. Their devices were matched with the networks of then; whether a
// device that is there now is for a new network cannot be known.
func (p *planner) checkMatchedBefore(replaced []string) {
	before := map[string]int64{}
	for _, name := range replaced {
		template := p.env.template(p.object.ref.Namespace, name)
		if template == nil {
			continue
		}
		for _, s := range selectionsOf(template) {
			if n, found := p.network(s.Network); found {
				before[n.resourceName]++
			}
		}
	}
	references := p.references()
	for _, c := range p.containers() {
		for _, list := range resourceLists {
			entries(get(c.node, "resources", list), func(key, value *yaml.Node) {
				if n := references[key.Value]; n > before[key.Value] {
					at := c.path.Child("resources", list, key.Value)
					p.add(ResourceNotMatched, at, p.doc.at(value), "%d networks draw from it, and %s remain", n, str(value))
					p.ledger.settle(at.String(), Reported, ResourceNotMatched)
				}
			})
		}
	}
}

// checkLeftOver looks for claims of a conversion beyond those that are wanted.
func (p *planner) checkLeftOver(wanted int) {
	var names []string
	for i := range wanted {
		names = append(names, podClaimName(i))
	}
	for _, c := range p.pod.ownClaims() {
		if !slices.Contains(names, c.name) {
			p.add(ClaimLeftOver, c.path, p.doc.at(c.node), "%q refers to %s", c.name, c.template)
		}
	}
}
