package attachment

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// NetworkRef names a NetworkAttachmentDefinition.
type NetworkRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String returns namespace/name.
func (r NetworkRef) String() string { return r.Namespace + "/" + r.Name }

// RefOf returns the reference to a NetworkAttachmentDefinition.
func RefOf(nad metav1.Object) NetworkRef {
	return NetworkRef{Namespace: nad.GetNamespace(), Name: nad.GetName()}
}

// PodRef names a pod with its UID.
type PodRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns namespace/name.
func (r PodRef) String() string { return r.Namespace + "/" + r.Name }

// ClaimRef names a ResourceClaim with its UID.
type ClaimRef struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid"`
}

// String returns namespace/name.
func (r ClaimRef) String() string { return r.Namespace + "/" + r.Name }

// ClaimNames returns the names of a pod's ResourceClaims, that for its extended resources last.
// Claims that do not exist yet are not among them.
func ClaimNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
		}
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names = append(names, *s.ResourceClaimName)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}
