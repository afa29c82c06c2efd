package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// podClaim is an entry of a pod's spec.resourceClaims by which it asks for
// networks.
type podClaim struct {
	index    int
	template string
	// made is set for those of a conversion; the others were written by hand.
	made bool
}

func (c podClaim) String() string {
	return fmt.Sprintf("spec.resourceClaims[%d], which refers to template %s", c.index, c.template)
}

// claimOf finds the first. Only nadra can serve a pod that has one. A claim
// that is no template's is not looked into.
func claimOf(pod *corev1.Pod, namespace string, l Lookups) (podClaim, bool) {
	for i, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimTemplateName == nil {
			continue
		}
		name := *c.ResourceClaimTemplateName
		if translate.MadeTemplate(name) {
			return podClaim{i, name, true}, true
		}
		if l.Template == nil {
			continue
		}
		if t := l.Template(namespace, name); t != nil && asksForNetwork(t.Spec.Spec) {
			return podClaim{i, name, false}, true
		}
	}
	return podClaim{}, false
}

func asksForNetwork(spec resourceapi.ResourceClaimSpec) bool {
	for _, r := range requestsOf(spec) {
		if _, ours := attachment.ClassNetwork(r.class); ours {
			return true
		}
	}
	return false
}

// request is one request of a claim for devices of a class, or one alternative
// of a request.
type request struct {
	// name is that of a config's requests: an alternative's is request/alternative.
	name, class string
	// index is that of the request, sub that of the alternative or -1.
	index, sub  int
	adminAccess bool
}

func requestsOf(spec resourceapi.ResourceClaimSpec) []request {
	var out []request
	for i, r := range spec.Devices.Requests {
		if r.Exactly != nil {
			admin := r.Exactly.AdminAccess != nil && *r.Exactly.AdminAccess
			out = append(out, request{r.Name, r.Exactly.DeviceClassName, i, -1, admin})
		}
		for j, s := range r.FirstAvailable {
			out = append(out, request{r.Name + "/" + s.Name, s.DeviceClassName, i, j, false})
		}
	}
	return out
}
