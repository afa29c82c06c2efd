package conformance

import (
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// manifest is the origin of a pod: the document, and the pod's index among those of the
// document with the annotation.
type manifest struct {
	text  []byte
	index int
}

// convert returns the claims that the pod has after `kubectl nadra convert` of its
// manifest, or none if the manifest is not converted.
func (m manifest) convert(namespace string, networks []Network) ([]resourceapi.ResourceClaimSpec, error) {
	result := translate.Convert(translate.Input{
		Files: []translate.File{{Name: "manifest.yaml", Data: m.text}},
		Options: translate.Options{
			Namespace: namespace, AllNetworks: true, Pools: true,
			Lookup: func(ref attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition { return lookup(networks, ref) },
		},
	})
	templates := map[string]resourceapi.ResourceClaimSpec{}
	for _, c := range result.Created {
		if t, ok := c.Object.(*resourceapi.ResourceClaimTemplate); ok {
			templates[t.Name] = t.Spec.Spec
		}
	}
	var tree any
	if err := yaml.Unmarshal(result.Files[0].Data, &tree); err != nil {
		return nil, fmt.Errorf("reading what it was converted to: %w", err)
	}
	var converted corpus
	converted.collect("", namespace, tree)
	var specs []resourceapi.ResourceClaimSpec
	for _, name := range converted.pods[m.index].templates {
		spec, ours := templates[name]
		if ours {
			specs = append(specs, spec)
		}
	}
	return specs, nil
}

func lookup(networks []Network, ref attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
	for _, n := range networks {
		if n.Namespace == ref.Namespace && n.Name == ref.Name {
			return n.definition()
		}
	}
	return nil
}

// templatesOf returns the names of the templates of a pod's claims.
func templatesOf(pod map[string]any) []string {
	var out []string
	spec, _ := pod["spec"].(map[string]any)
	claims, _ := spec["resourceClaims"].([]any)
	for _, c := range claims {
		claim, _ := c.(map[string]any)
		if name, ok := claim["resourceClaimTemplateName"].(string); ok {
			out = append(out, name)
		}
	}
	return out
}
