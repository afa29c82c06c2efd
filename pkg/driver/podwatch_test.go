package driver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWatchKnowsWhoseStatusItIs checks that the watch keeps who was the last to write network-status.
func TestWatchKnowsWhoseStatusItIs(t *testing.T) {
	for manager, want := range map[string]bool{"net.nadra.dev": true, "multus": false} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{ManagedFields: []metav1.ManagedFieldsEntry{{
			Manager: manager, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}}}`),
		}}}}
		slim, err := slimPod("net.nadra.dev")(pod)
		if err != nil {
			t.Fatal(err)
		}
		if got := slim.(*knownPod).ownStatus; got != want {
			t.Errorf("written by %s: nadra's is %t", manager, got)
		}
	}
}
