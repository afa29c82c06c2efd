package admission

import (
	"fmt"

	corev1 "k8s.io/api/core/v1"

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
