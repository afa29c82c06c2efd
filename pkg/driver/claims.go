package driver

import (
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// extendedClaim is the scheduler's annotation on the claim that it makes for the extended
// resources of a pod (KEP-5004).
const extendedClaim = "resource.kubernetes.io/extended-resource-claim"

// isExtended reports whether a claim is for extended resources.
func isExtended(claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[extendedClaim] == "true"
}

// refOf returns the reference of a claim.
func refOf(claim *resourceapi.ResourceClaim) attachment.ClaimRef {
	return attachment.ClaimRef{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)}
}

// consumerOf returns the reference of a pod that a claim is reserved for.
func consumerOf(claim *resourceapi.ResourceClaim, c resourceapi.ResourceClaimConsumerReference) attachment.PodRef {
	return attachment.PodRef{Namespace: claim.Namespace, Name: c.Name, UID: string(c.UID)}
}

// podOf returns the one pod that a claim is reserved for. A network interface is in one pod,
// so a claim for several pods could only be attached to the first.
func podOf(claim *resourceapi.ResourceClaim) (attachment.PodRef, error) {
	var pods []string
	var pod attachment.PodRef
	for _, consumer := range claim.Status.ReservedFor {
		if attachment.IsPodGroup(consumer) {
			return pod, reason.Errorf(reason.ClaimShared, "status.reservedFor: the claim is shared by the pods of PodGroup %s; a network attachment belongs to one pod: "+
				"remove the claim from the PodGroup's spec.resourceClaims, so that the pods' ResourceClaimTemplate gives each pod a claim of its own", consumer.Name)
		}
		if !attachment.IsPod(consumer) {
			return pod, reason.Errorf(reason.ClaimNotReserved, "status.reservedFor: %s %q is not a pod", consumer.Resource, consumer.Name)
		}
		pods = append(pods, consumer.Name)
		pod = consumerOf(claim, consumer)
	}
	switch len(pods) {
	case 0:
		return pod, reason.Errorf(reason.ClaimNotReserved, "status.reservedFor: the claim is reserved for no pod")
	case 1:
		return pod, nil
	}
	return pod, reason.Errorf(reason.ClaimShared, "status.reservedFor: the claim is shared by the pods %s; a network attachment belongs to one pod: "+
		"use a ResourceClaimTemplate, which gives each pod a claim of its own", strings.Join(pods, ", "))
}
