package nodepod

import (
	"context"
	"errors"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
)

// Abandoned is the time after its end at which a pod counts as abandoned. A process that
// waits for its pod reads it within seconds.
const Abandoned = time.Minute

// Sweep deletes the pods in the namespace that ended some time ago: pods of processes that
// were killed.
func (r Runner) Sweep(ctx context.Context, ago time.Duration) error {
	list, err := r.Kube.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(ours).String()})
	if err != nil {
		return fmt.Errorf("listing abandoned pods in namespace %s: %w", r.Namespace, err)
	}
	var errs []error
	for i := range list.Items {
		if end, ended := endOf(&list.Items[i]); ended && time.Since(end) >= ago {
			errs = append(errs, r.remove(ctx, list.Items[i].Name))
		}
	}
	return errors.Join(errs...)
}

// endOf returns the time at which a pod ended. A pod that its node refused ended when it
// was created.
func endOf(pod *corev1.Pod) (end time.Time, ended bool) {
	if pod.Status.Phase != corev1.PodSucceeded && pod.Status.Phase != corev1.PodFailed {
		return end, false
	}
	end = pod.CreationTimestamp.Time
	for _, s := range pod.Status.ContainerStatuses {
		if t := s.State.Terminated; t != nil && t.FinishedAt.After(end) {
			end = t.FinishedAt.Time
		}
	}
	return end, true
}
