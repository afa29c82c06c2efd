package inspect

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Parents has the controllers of ReplicaSets and Jobs, for example the Deployment of a ReplicaSet, by kind, namespace and
// name. Those without a controller have an empty one.
type Parents map[[3]string]metav1.OwnerReference

// Add records the controller of a ReplicaSet or a Job.
func (p *Parents) Add(kind string, o metav1.Object) {
	if *p == nil {
		*p = Parents{}
	}
	owner := cmp.Or(metav1.GetControllerOf(o), &metav1.OwnerReference{})
	(*p)[[3]string{kind, o.GetNamespace(), o.GetName()}] = *owner
}

// templateHash maps the label with the hash in a ReplicaSet's name to the kind of the
// ReplicaSet's controller.
var templateHash = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "Deployment", "rollouts-pod-template-hash": "Rollout"}

// WorkloadOf returns the workload that created a pod and would recreate it, or nil. For a missing ReplicaSet, its name
// decides. Mirrors of static pods have none: the kubelet creates them.
func (p Parents) WorkloadOf(pod *corev1.Pod) *metav1.OwnerReference {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind == "Node" {
		return nil
	}
	parent, known := p[[3]string{owner.Kind, pod.Namespace, owner.Name}]
	switch {
	case parent.Name != "":
		return &parent
	case !known && owner.Kind == "ReplicaSet":
		for label, kind := range templateHash {
			if name, found := strings.CutSuffix(owner.Name, "-"+pod.Labels[label]); found && pod.Labels[label] != "" {
				return &metav1.OwnerReference{Kind: kind, Name: name}
			}
		}
	}
	return owner
}
