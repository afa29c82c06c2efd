package attachment

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// StatusIsOurs reports whether nadra is the last to have written the pod's network-status.
// That shows who has attached the pod's networks, also without a claim.
func StatusIsOurs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == v1alpha1.DriverName && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+nadv1.NetworkStatusAnnot+`"`))
	})
}

// StatusesOf returns the entries of a pod's network-status, and whether it has one that can be read.
func StatusesOf(pod *corev1.Pod) (all []nadv1.NetworkStatus, ok bool) {
	if json.Unmarshal([]byte(pod.Annotations[nadv1.NetworkStatusAnnot]), &all) != nil {
		return nil, false
	}
	return all, true
}

// IsDefault reports whether an entry of network-status is the default network's, which not every version of
// Multus marks.
func IsDefault(s nadv1.NetworkStatus) bool {
	return s.Default || s.Interface == "eth0" || !strings.Contains(s.Name, "/")
}

// ShowsNetworks reports whether network-status has another network than the default one. If one is marked as that,
// all others are networks, whatever their names: early versions of Multus wrote them without a namespace.
func ShowsNetworks(pod *corev1.Pod) bool {
	all, _ := StatusesOf(pod)
	isDefault := IsDefault
	if slices.ContainsFunc(all, func(s nadv1.NetworkStatus) bool { return s.Default }) {
		isDefault = func(s nadv1.NetworkStatus) bool { return s.Default }
	}
	return slices.ContainsFunc(all, func(s nadv1.NetworkStatus) bool { return !isDefault(s) })
}
