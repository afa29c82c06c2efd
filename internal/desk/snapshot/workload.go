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

// templateHash maps the label with the hash in a ReplicaSet's name to the kind of the
// ReplicaSet's controller.
var templateHash = map[string]string{appsv1.DefaultDeploymentUniqueLabelKey: "Deployment", "rollouts-pod-template-hash": "Rollout"}

// workloadOf returns the workload that created a pod and would recreate it, or nil.
// Mirrors of static pods have none: the kubelet creates them.
func (in *Input) workloadOf(pod *corev1.Pod) *Workload {
	owner := metav1.GetControllerOf(pod)
	if owner == nil || owner.Kind == "Node" {
		return nil
	}
	if w, known := in.parents[identity{pod.Namespace, owner.Kind, owner.Name}]; known {
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

// numbered matches the end of a StatefulSet pod's name.
var numbered = regexp.MustCompile(`-(\d+)$`)

// ordinalOf returns the ordinal that a pod shares with its successor, or nil.
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

// ends reports whether the workload's pods end by themselves.
func (w *Workload) ends() bool { return w != nil && (w.Kind == "Job" || w.Kind == "CronJob") }
