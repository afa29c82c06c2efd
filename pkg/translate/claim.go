package translate

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// PodClaimName is the name of a pod's claim in spec.resourceClaims. The second and later claims
// have a number after it.
const PodClaimName = "nadra"

func podClaimName(i int) string {
	if i == 0 {
		return PodClaimName
	}
	return fmt.Sprintf("%s-%d", PodClaimName, i+1)
}

const (
	templatePrefix = "nadra-"
	// handPrefix is that of templates with requests for devices of other drivers.
	handPrefix = "networks-"
	// deviceRequestPrefix begins the name of a request for the device of another driver. No interface has such a name.
	deviceRequestPrefix = "device-request-"
	templateDigits      = 10
	maxTemplate         = 63
)

// templatesFor makes the claim templates that request the networks of a pod: one template, or
// several if the networks exceed the requests of one claim. Workloads of a namespace with equal
// requests share their templates, because the name is derived from the content. devices says for each selection
// how to request its devices; nil means networks' own classes. A template with requests for devices of other drivers
// has a name as one that was written by hand: the annotation does not say what it has.
func templatesFor(selections []attachment.Selection, devices []deviceNeed, most int, namespace string) ([]*resourceapi.ResourceClaimTemplate, error) {
	names, err := attachment.Agree(selections)
	if err != nil {
		return nil, err
	}
	prefix := templatePrefix
	if slices.ContainsFunc(devices, func(d deviceNeed) bool { return d.class != "" }) {
		prefix, most = handPrefix, max(1, most/2)
	}
	if len(selections) > most {
		// Each claim would count from net1, but a pod has one net1.
		selections = slices.Clone(selections)
		for i := range selections {
			selections[i].Interface = names[i]
		}
	}
	var out []*resourceapi.ResourceClaimTemplate
	for part := range slices.Chunk(selections, most) {
		spec, err := attachment.ClaimSpec(part)
		if err != nil {
			return nil, err
		}
		for i, s := range part {
			if i >= len(devices) {
				continue
			}
			if class := devices[i].class; class != "" {
				s.DeviceFrom = deviceRequestPrefix + spec.Devices.Requests[i].Name
				spec.Devices.Requests = append(spec.Devices.Requests, resourceapi.DeviceRequest{
					Name: s.DeviceFrom, Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class},
				})
			}
			if err := configure(&spec.Devices, i, s, devices[i]); err != nil {
				return nil, err
			}
		}
		devices = devices[min(len(part), len(devices)):]
		out = append(out, &resourceapi.ResourceClaimTemplate{
			TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "ResourceClaimTemplate"},
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: templateName(prefix, spec, part)},
			Spec:       resourceapi.ResourceClaimTemplateSpec{Spec: spec},
		})
	}
	return out, nil
}

// configure changes a request to one of the class of all devices, by an expression, or to one that runs on the device of
// another request. The class says neither, so a config of the claim does.
func configure(claim *resourceapi.DeviceClaim, i int, s attachment.Selection, d deviceNeed) error {
	r := claim.Requests[i]
	if d.expression != "" {
		r.Exactly.DeviceClassName = v1alpha1.DriverName
		r.Exactly.Selectors = []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: d.expression}}}
	}
	if d == (deviceNeed{}) {
		return nil
	}
	config, err := attachment.ClaimConfig(r.Name, s)
	claim.Config = slices.DeleteFunc(claim.Config, func(c resourceapi.DeviceClaimConfiguration) bool { return slices.Contains(c.Requests, r.Name) })
	claim.Config = append(claim.Config, config)
	return err
}

// templateName returns a readable name that ends in a hash of the content.
func templateName(prefix string, spec resourceapi.ResourceClaimSpec, selections []attachment.Selection) string {
	raw, err := json.Marshal(spec)
	if err != nil {
		panic(fmt.Sprintf("encoding a claim: %v", err))
	}
	var networks []string
	for _, s := range selections { // of one claim, 32 at most
		if name := strings.ReplaceAll(s.Network.Name, ".", "-"); !slices.Contains(networks, name) {
			networks = append(networks, name)
		}
	}
	readable := prefix + strings.Join(networks, "-")
	readable = readable[:min(len(readable), maxTemplate-1-templateDigits)]
	sum := sha256.Sum256(raw)
	return strings.TrimRight(readable, "-") + "-" + hex.EncodeToString(sum[:])[:templateDigits]
}

// claimReferences returns the edits by which a pod refers to its templates: an entry of
// spec.resourceClaims for each template, and one of resources.claims in every container. It
// adds no edit for a reference that exists. earlier has the templates of the existing
// references.
func (r *request) claimReferences(templates []string) (edits []Edit, earlier []string) {
	list := r.pod.template.get("spec", "resourceClaims")
	var missing []any
	var changed []Edit
	for i, template := range templates {
		name := podClaimName(i)
		entry := list.named(name)
		if entry.node == nil {
			missing = append(missing, fields{{Key: "name", Value: name}, {Key: "resourceClaimTemplateName", Value: template}})
			continue
		}
		now := entry.get("resourceClaimTemplateName")
		earlier = append(earlier, now.str())
		switch {
		case now.str() == template:
		case MadeTemplate(now.str()):
			r.addAt(ClaimReplaced, now, "%s becomes %s", now.str(), template)
			changed = append(changed, Edit{Op: Replace, Path: now.path, Value: template})
		default:
			r.addAt(ClaimNameTaken, entry, "the entry named %q refers to another claim", name)
		}
	}
	for _, c := range r.pod.containers() {
		edits = append(edits, claimEdits(c, len(templates))...)
	}
	return slices.Concat(edits, changed, list.adding(missing...)), earlier
}

// claimEdits returns the edits by which one container refers to the pod's claims.
func claimEdits(c container, claims int) []Edit {
	resources := c.get("resources")
	list := resources.get("claims")
	var missing []any
	for i := range claims {
		if name := podClaimName(i); list.named(name).node == nil {
			missing = append(missing, fields{{Key: "name", Value: name}})
		}
	}
	if len(missing) > 0 && yamledit.IsEmpty(resources.node) {
		return []Edit{{Op: Add, Path: resources.path, Value: fields{{Key: "claims", Value: missing}}}}
	}
	return list.adding(missing...)
}
