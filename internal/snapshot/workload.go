package snapshot

import (
	"regexp"
	"strconv"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// templateHash are labels by which a ReplicaSet's name is its maker's and a hash.
var templateHash = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "Deployment", "rollouts-pod-template-hash": "Rollout"}

// workloadOf is what made a pod, and will make the next one; nil where nothing
// does. The mirror of a static pod is the kubelet's, and is one of a node.
func (in *Input) workloadOf(pod *corev1.Pod) *Workload {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind == "Node" {
		return nil
	}
	if w, known := in.Makers[Maker{owner.Kind, pod.Namespace, owner.Name}]; known {
		return &w
	}
	if owner.Kind == "ReplicaSet" {
		for label, kind := range templateHash {
			if name, found := strings.CutSuffix(owner.Name, "-"+pod.Labels[label]); found && pod.Labels[label] != "" {
				return &Workload{Kind: kind, Name: name}
			}
		}
	}
	return &Workload{Kind: owner.Kind, Name: owner.Name}
}

// numbered is the end of the name of a StatefulSet's pod.
var numbered = regexp.MustCompile(`-(\d+)$`)

// ordinalOf is the number that a pod's successor will have again; nil where it
// has none.
func ordinalOf(pod *corev1.Pod, w *Workload) *int {
	if w == nil {
		return nil
	}
	text := pod.Labels[appsv1.PodIndexLabel]
	if text == "" {
		text = pod.Annotations[batchv1.JobCompletionIndexAnnotation]
	}
	if text == "" && w.Kind == "StatefulSet" {
		if m := numbered.FindStringSubmatch(pod.Name); m != nil {
			text = m[1]
		}
	}
	n, err := strconv.Atoi(text)
	if err != nil {
		return nil
	}
	return &n
}

// ends reports whether pods of a workload end by themselves.
func (w *Workload) ends() bool { return w != nil && (w.Kind == "Job" || w.Kind == "CronJob") }
