package attachment

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// Attacher is who attaches, or has attached, the networks that a pod's annotation names.
type Attacher string

// The attachers. A pod that has ended, is on the host's network, or names no networks has none.
const (
	OfNadra  Attacher = "nadra"
	OfMultus Attacher = "multus"
	// OfNobody is for a pod that runs without the networks that it names.
	OfNobody Attacher = "none"
)

// AttacherOf returns who attaches the networks of a pod. claimed reports whether a claim of the pod requests
// networks; claims for other devices decide nothing. Without such a claim, nadra attaches the pods whose network-status
// its driver has written, and those that name their networks in OwnNetworksAnnotation, unless they run without them.
func AttacherOf(pod *corev1.Pod, claimed bool) Attacher {
	switch {
	case IsOver(pod), pod.Spec.HostNetwork, !NamesNetworks(pod):
		return ""
	case claimed, StatusIsOurs(pod):
		return OfNadra
	case pod.Status.Phase == corev1.PodRunning && !ShowsNetworks(pod):
		return OfNobody
	case NamesOwn(pod.Annotations):
		return OfNadra
	}
	return OfMultus
}

// NamesNetworks reports whether a pod's annotation names networks, or is invalid. An empty list names none, unless the
// webhook had written the annotation from the pod's claims, which an edit does not change.
func NamesNetworks(pod *corev1.Pod) bool {
	if pod.Annotations[v1alpha1.DescribedAnnotation] != "" && len(pod.Spec.ResourceClaims) > 0 {
		return true
	}
	text := NetworksText(pod.Annotations)
	if strings.TrimSpace(text) == "" {
		return false
	}
	networks, err := ParseSelections(text, pod.Namespace)
	return err != nil || len(networks) > 0
}

// IsOver reports whether a pod has ended for good.
func IsOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}
