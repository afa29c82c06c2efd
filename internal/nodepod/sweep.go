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

// Abandoned is how long after its end nobody is taken to read a pod any more:
// who waits for it asks for it every few seconds.
const Abandoned = time.Minute

// Sweep deletes the pods in the namespace that have ended some time ago: those of
// processes that were killed.
func (r Runner) Sweep(ctx context.Context, ago time.Duration) error {
	list, err := r.Kube.CoreV1().Pods(r.Namespace).List(ctx, metav1.ListOptions{LabelSelector: labels.SelectorFromSet(ours).String()})
	if err != nil {
		return fmt.Errorf("looking for pods that were left in namespace %s: %w", r.Namespace, err)
	}
	var errs []error
	for i := range list.Items {
		if end, ended := endOf(&list.Items[i]); ended && time.Since(end) >= ago {
			errs = append(errs, r.remove(ctx, list.Items[i].Name))
		}
	}
	return errors.Join(errs...)
}

// endOf is when a pod has ended. One that its node has refused had no beginning.
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
