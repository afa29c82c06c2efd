package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// PodClaimName is the name of a pod's claim in spec.resourceClaims; when there
// are several, those after the first have a number after it.
const PodClaimName = "nadra"

func podClaimName(i int) string {
	if i == 0 {
		return PodClaimName
	}
	return fmt.Sprintf("%s-%d", PodClaimName, i+1)
}

const (
	templatePrefix = "nadra-"
	templateDigits = 10
	maxTemplate    = 63
)

// templatesFor makes the claims that stand for selections: one template, or
// more where a claim has no room for all requests. Workloads of a namespace
// that need the same share their templates, since the name says the content.
// deviceless says of each selection whether its network gets its device by another
// claim of the pod; nil says that none does.
func templatesFor(selections []attachment.Selection, deviceless []bool, namespace string) ([]*resourceapi.ResourceClaimTemplate, error) {
	names, err := attachment.Agree(selections)
	if err != nil {
		return nil, err
	}
	if len(selections) > resourceapi.DeviceRequestsMaxSize {
		// Each claim counts from net1 again, but a pod has one net1.
		selections = slices.Clone(selections)
		for i := range selections {
			selections[i].Interface = names[i]
		}
	}
	var out []*resourceapi.ResourceClaimTemplate
	for part := range slices.Chunk(selections, resourceapi.DeviceRequestsMaxSize) {
		spec, err := attachment.ClaimSpec(part)
		if err != nil {
			return nil, err
		}
		for i, s := range part {
			if i < len(deviceless) && deviceless[i] {
				withoutDevice(spec.Devices.Requests[i].Exactly, s.Network)
			}
		}
		deviceless = deviceless[min(len(part), len(deviceless)):]
		out = append(out, &resourceapi.ResourceClaimTemplate{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaimTemplate"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: templateName(spec, part)},
			Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: spec},
		})
	}
	return out, nil
}

// withoutDevice has a request be for the network alone, whose DeviceClass is for
// devices of its pool.
func withoutDevice(r *resourceapi.ExactDeviceRequest, network attachment.NetworkRef) {
	// Devices of pools lack the attributes, and reading a missing one is an error.
	expression := fmt.Sprintf("%q in device.attributes[%q] && ", "nadHash", v1alpha1.DriverName) + selects(network)
	r.DeviceClassName = v1alpha1.DriverName
	r.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}}
}

// templateName is readable, and the same for the same content only.
func templateName(spec resourceapi.ResourceClaimSpec, selections []attachment.Selection) string {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encoding a claim: %v", err))
	}
	var networks []string
	for _, s := range selections {
		if name := strings.ReplaceAll(s.Network.Name, ".", "-"); !slices.Contains(networks, name) {
			networks = append(networks, name)
		}
	}
	readable := templatePrefix + strings.Join(networks, "-")
	readable = readable[:min(len(readable), maxTemplate-1-templateDigits)]
	sum := sha256.Sum256(raw)
	return strings.TrimRight(readable, "-") + "-" + hex.EncodeToString(sum[:])[:templateDigits]
}

// referTo makes the edits by which a pod refers to its templates: an entry of
// spec.resourceClaims for each, and one of resources.claims in every container.
// A reference that is there already needs no edit; earlier are the templates of
// the references that are there.
func (p *planner) referTo(templates []string) (edits []Edit, earlier []string) {
	spec := p.pod.at.Child("spec")
	list := get(p.pod.template, "spec", "resourceClaims")
	var missing []any
	var changed []Edit
	for i, template := range templates {
		name := podClaimName(i)
		at := slices.IndexFunc(items(list), func(item *yaml.Node) bool { return str(get(item, "name")) == name })
		if at < 0 {
			missing = append(missing, fields{{"name", name}, {"resourceClaimTemplateName", template}})
			continue
		}
		path := spec.Child("resourceClaims").Index(at)
		now := get(list.Content[at], "resourceClaimTemplateName")
		earlier = append(earlier, str(now))
		switch {
		case str(now) == template:
		case ours.MatchString(str(now)):
			path = path.Child("resourceClaimTemplateName")
			p.add(ClaimReplaced, path, p.pod.doc.at(now), "%s becomes %s", str(now), template)
			changed = append(changed, Edit{Replace, path, template})
		default:
			p.add(ClaimNameTaken, path, p.pod.doc.at(list.Content[at]), "the entry named %q refers to something else", name)
		}
	}
	for _, c := range p.containers() {
		edits = append(edits, claimEdits(c, len(templates))...)
	}
	edits = append(edits, changed...)
	if isEmpty(list) && len(missing) > 0 {
		return append(edits, Edit{Add, spec.Child("resourceClaims"), missing}), earlier
	}
	for _, m := range missing {
		edits = append(edits, Edit{Add, spec.Child("resourceClaims", "-"), m})
	}
	return edits, earlier
}

// claimEdits are those of one container.
func claimEdits(c container, claims int) []Edit {
	at := c.path.Child("resources")
	resources := get(c.node, "resources")
	list := get(resources, "claims")
	var missing []any
	for i := range claims {
		name := podClaimName(i)
		if !slices.ContainsFunc(items(list), func(item *yaml.Node) bool { return str(get(item, "name")) == name }) {
			missing = append(missing, fields{{"name", name}})
		}
	}
	switch {
	case len(missing) == 0:
		return nil
	case isEmpty(resources):
		return []Edit{{Add, at, fields{{"claims", missing}}}}
	case isEmpty(list):
		return []Edit{{Add, at.Child("claims"), missing}}
	}
	var edits []Edit
	for _, m := range missing {
		edits = append(edits, Edit{Add, at.Child("claims", "-"), m})
	}
	return edits
}
