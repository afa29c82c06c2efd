package attachment

import resourceapi "k8s.io/api/resource/v1"

// IsPod reports whether the consumer of a claim is a pod.
func IsPod(c resourceapi.ResourceClaimConsumerReference) bool {
	return c.APIGroup == "" && c.Resource == "pods"
}

// IsPodGroup reports whether the consumer of a claim is a PodGroup, whose pods all use the
// claim (KEP-5729).
func IsPodGroup(c resourceapi.ResourceClaimConsumerReference) bool {
	return c.APIGroup == "scheduling.k8s.io" && c.Resource == "podgroups"
}
