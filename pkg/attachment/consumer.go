package attachment

import (
	"slices"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// HasDevices reports whether a claim has devices of nadra.
func HasDevices(c *resourceapi.ResourceClaim) bool {
	return c.Status.Allocation != nil && slices.ContainsFunc(c.Status.Allocation.Devices.Results, func(r resourceapi.DeviceRequestAllocationResult) bool {
		return r.Driver == v1alpha1.DriverName
	})
}

// IsPod reports whether the consumer of a claim is a pod.
func IsPod(c resourceapi.ResourceClaimConsumerReference) bool {
	return c.APIGroup == "" && c.Resource == "pods"
}

// IsPodGroup reports whether the consumer of a claim is a PodGroup, whose pods all use the
// claim (KEP-5729).
func IsPodGroup(c resourceapi.ResourceClaimConsumerReference) bool {
	return c.APIGroup == "scheduling.k8s.io" && c.Resource == "podgroups"
}
