package driver

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/drivertest"
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
		slim, err := slimPod(pod)
		if err != nil {
			t.Fatal(err)
		}
		if got := slim.(*knownPod).ownStatus; got != want {
			t.Errorf("written by %s: nadra's is %t", manager, got)
		}
	}
}

// TestNeverOfASingleContainer checks that the gate may hold no container of a pod with one, of whichever kind, that is never
// restarted, whatever the pod's own policy says: a refusal would be that container's end.
func TestNeverOfASingleContainer(t *testing.T) {
	d := newDriver(t)
	h := newHooks(d, 0)
	of := func(policy corev1.ContainerRestartPolicy) []corev1.Container {
		return []corev1.Container{{}, {RestartPolicy: &policy}}
	}
	for name, c := range map[string]struct {
		spec corev1.PodSpec
		want bool
	}{
		"none":      {corev1.PodSpec{Containers: make([]corev1.Container, 2)}, true},
		"container": {corev1.PodSpec{Containers: of(corev1.ContainerRestartPolicyNever)}, false},
		"init":      {corev1.PodSpec{InitContainers: of(corev1.ContainerRestartPolicyNever)}, false},
		"sidecar":   {corev1.PodSpec{InitContainers: of(corev1.ContainerRestartPolicyAlways)}, true},
	} {
		c.spec.RestartPolicy = corev1.RestartPolicyAlways
		pod, _ := objects()
		pod.Spec = c.spec
		see(t, d, pod)
		if got := h.gateMayHold(drivertest.Web); got != c.want {
			t.Errorf("%s: held %t", name, got)
		}
	}
}
