package inspect

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestWorkloadOf checks the workload of a pod by its controller's controller or, if a ReplicaSet is missing, by its name.
func TestWorkloadOf(t *testing.T) {
	controlled := func(kind, name string) metav1.ObjectMeta {
		yes := true
		return metav1.ObjectMeta{Namespace: "shop", OwnerReferences: []metav1.OwnerReference{{Kind: kind, Name: name, Controller: &yes}}}
	}
	var parents Parents
	job := controlled("CronJob", "nightly")
	job.Name = "nightly-1"
	parents.Add("Job", &job)
	parents.Add("ReplicaSet", &metav1.ObjectMeta{Namespace: "shop", Name: "alone-5d"})
	for name, tt := range map[string]struct {
		kind, owner string
		labels      map[string]string
		want        string
	}{
		"a Job's controller":            {"Job", "nightly-1", nil, "CronJob nightly"},
		"a ReplicaSet without one":      {"ReplicaSet", "alone-5d", map[string]string{"pod-template-hash": "5d"}, "ReplicaSet alone-5d"},
		"a missing one of a Deployment": {"ReplicaSet", "web-5d", map[string]string{"pod-template-hash": "5d"}, "Deployment web"},
		"a missing one of a Rollout":    {"ReplicaSet", "web-5d", map[string]string{"rollouts-pod-template-hash": "5d"}, "Rollout web"},
		"a missing one of another name": {"ReplicaSet", "web-6e", map[string]string{"pod-template-hash": "5d"}, "ReplicaSet web-6e"},
		"a static pod's mirror":         {"Node", "n1", nil, ""},
	} {
		pod := &corev1.Pod{ObjectMeta: controlled(tt.kind, tt.owner)}
		pod.Labels = tt.labels
		got := ""
		if w := parents.WorkloadOf(pod); w != nil {
			got = w.Kind + " " + w.Name
		}
		if got != tt.want {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
	if w := parents.WorkloadOf(&corev1.Pod{}); w != nil {
		t.Errorf("a pod without a controller: %v", w)
	}
}
