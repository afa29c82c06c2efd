package inspect

import (
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestWhoAttachedWithoutAClaim checks that the annotation that only nadra reads, or the writer of network-status, decides
// whether Multus or nadra counts as the one that has attached a network without a claim.
func TestWhoAttachedWithoutAClaim(t *testing.T) {
	const status = `{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}}}`
	for _, tt := range []struct {
		name, annotation, manager, fields string
		want                              State
		notes                             int
	}{
		{"nadra", attachment.NetworksAnnotation, "net.nadra.dev", status, Attached, 1},
		{"Multus", attachment.NetworksAnnotation, "multus", status, Multus, 0},
		{"nadra, and another has written after it", attachment.OwnNetworksAnnotation, "multus", status, Attached, 1},
		{"nadra has written another annotation", attachment.NetworksAnnotation, "net.nadra.dev", `{"f:metadata":{"f:annotations":{"f:nadra.dev/retriggered":{}}}}`, Multus, 0},
	} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{
			Namespace: "default", Name: "web",
			Annotations: map[string]string{
				tt.annotation:            "blue",
				nadv1.NetworkStatusAnnot: `[{"name":"default/blue","interface":"net1","ips":["10.1.0.5"]}]`,
			},
			ManagedFields: []metav1.ManagedFieldsEntry{{Manager: tt.manager, FieldsV1: metav1.NewFieldsV1(tt.fields)}},
		}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		rows := Attachments(Input{Pods: []*corev1.Pod{pod}})
		if len(rows) != 1 || rows[0].State != tt.want || len(rows[0].Notes) != tt.notes || len(rows[0].IPs) != 1 {
			t.Errorf("%s: %+v", tt.name, rows)
		}
	}
}
