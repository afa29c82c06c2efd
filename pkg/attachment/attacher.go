package attachment

import (
	"encoding/json"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
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
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	switch {
	case over, pod.Spec.HostNetwork, !NamesNetworks(pod):
		return ""
	case claimed, StatusWrittenBy(v1alpha1.DriverName, pod):
		return OfNadra
	case pod.Status.Phase == corev1.PodRunning && !showsNetworks(pod):
		return OfNobody
	case NetworksKey(pod.Annotations) == OwnNetworksAnnotation:
		return OfNadra
	}
	return OfMultus
}

// NamesNetworks reports whether a pod's annotation names networks, or is invalid. An empty list names none.
func NamesNetworks(pod *corev1.Pod) bool {
	text := NetworksText(pod.Annotations)
	if strings.TrimSpace(text) == "" {
		return false
	}
	networks, err := ParseSelections(text, pod.Namespace)
	return err != nil || len(networks) > 0
}

// showsNetworks reports whether network-status has another network than the default one.
func showsNetworks(pod *corev1.Pod) bool {
	var networks []struct{ Default bool }
	if json.Unmarshal([]byte(pod.Annotations[nadv1.NetworkStatusAnnot]), &networks) != nil {
		return false
	}
	return slices.ContainsFunc(networks, func(n struct{ Default bool }) bool { return !n.Default })
}
