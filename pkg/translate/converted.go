package translate

import (
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// madeName matches the names that templateName returns.
var madeName = regexp.MustCompile(`^` + templatePrefix + `(.*-)?[0-9a-f]{10}$`)

// MadeTemplate reports whether a template has the name of one that a conversion makes.
func MadeTemplate(name string) bool { return madeName.MatchString(name) }

// convertedClaim is an entry of a pod's spec.resourceClaims that a conversion added.
type convertedClaim struct {
	path           Path
	node           *yaml.Node
	name, template string
}

// convertedClaims returns the entries that an earlier conversion added.
func (p pod) convertedClaims() []convertedClaim {
	var out []convertedClaim
	for i, item := range items(get(p.template, "spec", "resourceClaims")) {
		if template := str(get(item, "resourceClaimTemplateName")); MadeTemplate(template) {
			path := p.at.Child("spec", "resourceClaims").Index(i)
			out = append(out, convertedClaim{path, item, str(get(item, "name")), template})
		}
	}
	return out
}

// planClaimAlone plans a pod without the annotation. The claims of an earlier conversion count:
// they remain if a conversion drops the annotation. A user who removed the annotation may have
// wanted to remove the networks.
func (s subject) planClaimAlone() plan {
	var out plan
	if s.env.unseen(s.pod) {
		out.networks, out.features = s.planUnseen()
		out.attaches = true
	}
	for _, c := range s.pod.convertedClaims() {
		out.attaches = true
		template := s.env.template(s.object.ref.Namespace, c.template)
		if template == nil {
			s.add(TemplateNotInInput, c.path, s.doc.at(c.node), "%s/%s is not in the input", s.object.ref.Namespace, c.template)
		} else {
			for _, selection := range selectionsOf(template) {
				out.networks = append(out.networks, selection.Network.String())
				out.features = append(out.features, featuresOf(selection)...)
			}
		}
		if !s.env.options.DropAnnotation {
			s.add(ClaimAlone, c.path, s.doc.at(c.node), "template %s has its networks", c.template)
		}
	}
	return out
}

// selectionsOf returns the selections of which a conversion made a template.
func selectionsOf(template *resourceapi.ResourceClaimTemplateSpec) []attachment.Selection {
	return attachment.RequestsOfClaim(template.Spec, "", nil).Selections
}

// checkMatchedBefore reports devices of a pod whose annotation has changed since it was
// converted. The conversion matched devices with the networks of that time, so it is unknown
// whether a remaining device is for a new network.
func (m *resourceMatcher) checkMatchedBefore(replaced []string) {
	before := map[string]int64{}
	for _, name := range replaced {
		template := m.env.template(m.object.ref.Namespace, name)
		if template == nil {
			continue
		}
		for _, s := range selectionsOf(template) {
			if n, found := m.network(s.Network); found {
				before[n.resourceName]++
			}
		}
	}
	for _, c := range m.pod.containers() {
		for _, list := range resourceLists {
			yamledit.Entries(get(c.node, "resources", list), func(key, value *yaml.Node) {
				if n := m.references[key.Value]; n > before[key.Value] {
					at := c.path.Child("resources", list, key.Value)
					m.add(ResourceNotMatched, at, m.doc.at(value), "%d networks draw from it, and %s remain", n, str(value))
				}
			})
		}
	}
}

// checkLeftOver reports claims of a conversion beyond the first wanted ones.
func (s subject) checkLeftOver(wanted int) {
	var names []string
	for i := range wanted {
		names = append(names, podClaimName(i))
	}
	for _, c := range s.pod.convertedClaims() {
		if !slices.Contains(names, c.name) {
			s.add(ClaimLeftOver, c.path, s.doc.at(c.node), "%q refers to %s", c.name, c.template)
		}
	}
}
