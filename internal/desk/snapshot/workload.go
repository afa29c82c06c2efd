package snapshot

import (
	"regexp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
)

// workloadOf returns the workload that created a pod and would recreate it, or nil.
func (in *Input) workloadOf(pod *corev1.Pod) *Workload {
	owner := in.parents.WorkloadOf(pod)
	if owner == nil {
		return nil
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
