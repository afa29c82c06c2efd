package nodepod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// deleteTimeout limits the deletion of a pod, also after an interruption.
const deleteTimeout = 10 * time.Second

// Runner runs pods on nodes.
type Runner struct {
	Kube kubernetes.Interface
	// Raw reads a path of the API server.
	Raw func(ctx context.Context, path string) ([]byte, error)
	// Namespace is the namespace of the pods. It must admit privileged pods.
	Namespace string
	// Image is an image with nadra-node.
	Image string
	// PullSecrets are the names of the Secrets of the namespace that the image needs.
	PullSecrets []string
	// Timeout limits the life of a pod.
	Timeout time.Duration
	// Poll is the time between two reads of a pod; it is zero in tests only.
	Poll time.Duration
}

// Run creates a pod, waits until it ends, and returns its log. It deletes the pod in any
// case.
func (r Runner) Run(ctx context.Context, pod *corev1.Pod) (log []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if _, err := r.Kube.CoreV1().Pods(r.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		if ctx.Err() != nil { // the API server may have created it all the same
			err = errors.Join(err, r.remove(ctx, pod.Name))
		}
		return nil, fmt.Errorf("creating a pod in namespace %s: %w", r.Namespace, err)
	}
	defer func() {
		if notRemoved := r.remove(ctx, pod.Name); notRemoved != nil {
			err = errors.Join(err, notRemoved)
		}
	}()
	if err := r.awaitEnd(ctx, pod.Name); err != nil {
		return nil, fmt.Errorf("waiting for pod %s: %w", pod.Name, err)
	}
	log, err = r.Raw(ctx, "/api/v1/namespaces/"+url.PathEscape(r.Namespace)+"/pods/"+pod.Name+"/log")
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return log, nil
}

// remove deletes a pod at once, also if ctx has ended.
func (r Runner) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteTimeout)
	defer cancel()
	err := r.Kube.CoreV1().Pods(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s, which is left behind: %w", r.Namespace, name, err)
	}
	return nil
}

// awaitEnd waits until a pod ends. Its error has the last state of the pod.
func (r Runner) awaitEnd(ctx context.Context, name string) error {
	state := "it was not read"
	err := wait.PollUntilContextCancel(ctx, r.Poll, true, func(ctx context.Context) (bool, error) {
		pod, err := r.Kube.CoreV1().Pods(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return false, ctx.Err()
		case kube.NoTurnLeft(err):
			return false, context.DeadlineExceeded
		case err != nil:
			return false, err
		case pod.Status.Phase == corev1.PodSucceeded:
			return true, nil
		case pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0:
			return false, reason.Errorf(reason.NodePodRefused, "the node refuses it: %s %s", pod.Status.Reason, pod.Status.Message)
		case pod.Status.Phase == corev1.PodFailed && !slices.ContainsFunc(pod.Status.ContainerStatuses, wasCreated):
			return false, reason.Errorf(reason.NodePodTimeout, "it did not start in time: %s", cmp.Or(waitingReason(pod), state))
		case pod.Status.Phase == corev1.PodFailed:
			return true, nil // its log has the error
		}
		state = State(pod)
		return false, nil
	})
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return reason.Errorf(reason.NodePodTimeout, "%w: %s", err, state)
	case errors.Is(err, context.Canceled):
		return fmt.Errorf("%w: %s", err, state)
	}
	return err
}

// wasCreated reports whether a container was created, and may have a log.
func wasCreated(s corev1.ContainerStatus) bool { return s.ContainerID != "" }

// waitingReason returns why the first waiting container waits; empty if none does.
func waitingReason(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	return ""
}

// State describes the state of a pod that does not run yet.
func State(pod *corev1.Pod) string {
	if why := waitingReason(pod); why != "" {
		return why
	}
	if pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending {
		return "the kubelet has not started it"
	}
	return "it is " + string(pod.Status.Phase)
}
