package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// claimOf names the first entry of a pod's spec.resourceClaims that requests networks: one of a
// conversion, or a handwritten one (hand). Only nadra can serve such a pod.
func claimOf(pod *corev1.Pod, hand []handClaim) (entry string, found bool) {
	for i, c := range pod.Spec.ResourceClaims {
		if isMade(c) {
			return fmt.Sprintf("spec.resourceClaims[%d] (template %s)", i, *c.ResourceClaimTemplateName), true
		}
		for _, h := range hand {
			if h.index == i {
				return h.String(), true
			}
		}
	}
	return "", false
}

// isMade reports whether an entry of a pod's spec.resourceClaims is one of a conversion.
func isMade(c corev1.PodResourceClaim) bool {
	return c.ResourceClaimTemplateName != nil && translate.MadeTemplate(*c.ResourceClaimTemplateName)
}

// request is a request of a claim, or one alternative of a request.
type request struct {
	// name is the name in a config's requests, for an alternative request/alternative.
	name, class string
	// index is the index of the request, sub that of the alternative or -1.
	index, sub  int
	adminAccess bool
}

// requestsOf returns the requests of a claim and their alternatives.
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
