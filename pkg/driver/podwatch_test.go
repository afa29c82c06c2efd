package driver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// TestDeletedMirrorPod checks that a static pod does not end with its mirror pod, which the kubelet makes again.
func TestDeletedMirrorPod(t *testing.T) {
	d := newDriver(t)
	static := attachment.PodRef{Namespace: "default", Name: "keepalived-node-1", UID: "of-the-file"}
	for _, mirrors := range []bool{true, false} {
		pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: static.Namespace, Name: static.Name, UID: types.UID(static.UID), DeletionTimestamp: &metav1.Time{}}}
		if mirrors {
			pod.UID, pod.Annotations = "of-the-mirror", map[string]string{corev1.MirrorPodAnnotationKey: static.UID}
		}
		see(t, d, pod)
		if d.watch.Find(static) == nil || d.watch.deleting(static) == mirrors {
			t.Errorf("mirror pod %t: the pod is found %t, under deletion %t", mirrors, d.watch.Find(static) != nil, d.watch.deleting(static))
		}
	}
}

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
