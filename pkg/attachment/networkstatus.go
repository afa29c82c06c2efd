package attachment

import (
	"bytes"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// StatusWrittenBy reports whether a driver is the last to have written the pod's network-status.
// That shows who has attached the pod's networks, also without a claim.
func StatusWrittenBy(driver string, pod *corev1.Pod) bool {
	return slices.ContainsFunc(pod.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.Manager == driver && m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:`+nadv1.NetworkStatusAnnot+`"`))
	})
}
