package cli

import (
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// TestCreateFailure checks that explain finds why a workload cannot have more pods, which is on no pod.
func TestCreateFailure(t *testing.T) {
	const denied = `admission webhook "pods.nadra.dev" denied the request: [NotConvertible] …`
	d, rs := &appsv1.Deployment{}, &appsv1.ReplicaSet{}
	d.Status.Conditions = []appsv1.DeploymentCondition{{Type: appsv1.DeploymentReplicaFailure, Status: corev1.ConditionTrue, Message: denied}}
	rs.Status.Conditions = []appsv1.ReplicaSetCondition{{Type: appsv1.ReplicaSetReplicaFailure, Status: corev1.ConditionTrue, Message: denied}}
	over := d.DeepCopy()
	over.Status.Conditions[0].Status = corev1.ConditionFalse
	for _, tt := range []struct {
		object runtime.Object
		want   string
	}{{d, denied}, {rs, denied}, {over, ""}, {&appsv1.Deployment{}, ""}, {&appsv1.StatefulSet{}, ""}} {
		if got := createFailure(tt.object); got != tt.want {
			t.Errorf("%T: %q, want %q", tt.object, got, tt.want)
		}
	}
}
