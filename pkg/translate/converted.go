package translate

import (
	"regexp"
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// madeName matches the names that templateName returns.
var madeName = regexp.MustCompile(`^` + templatePrefix + `(.*-)?[0-9a-f]{10}$`)

// MadeTemplate reports whether a template has the name of one that a conversion makes.
func MadeTemplate(name string) bool { return madeName.MatchString(name) }

// convertedClaim is an entry of a pod's spec.resourceClaims that a conversion added.
type convertedClaim struct {
	spot
	name, template string
}

// convertedClaims returns the entries that an earlier conversion added.
func (p pod) convertedClaims() []convertedClaim {
	var out []convertedClaim
	for _, item := range p.claims() {
		if template := item.get("resourceClaimTemplateName").str(); MadeTemplate(template) {
			out = append(out, convertedClaim{item, item.get("name").str(), template})
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
			s.addAt(TemplateNotInInput, c.spot, "%s/%s is not in the input", s.object.ref.Namespace, c.template)
		} else {
			for _, selection := range selectionsOf(template) {
				out.networks = append(out.networks, selection.Network.String())
				out.features = append(out.features, featuresOf(selection)...)
			}
		}
		if !s.env.options.DropAnnotation {
			s.addAt(ClaimAlone, c.spot, "template %s has its networks", c.template)
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
	m.pod.eachResource(func(name string, value spot) {
		if n := m.references[name]; n > before[name] {
			m.addAt(ResourceNotMatched, value, "%d networks draw from it, and %s remain", n, value.str())
		}
	})
}

// checkLeftOver reports claims of a conversion beyond the first wanted ones.
func (s subject) checkLeftOver(wanted int) {
	var names []string
	for i := range wanted {
		names = append(names, podClaimName(i))
	}
	for _, c := range s.pod.convertedClaims() {
		if !slices.Contains(names, c.name) {
			s.addAt(ClaimLeftOver, c.spot, "%q refers to %s", c.name, c.template)
		}
	}
}
