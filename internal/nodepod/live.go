// Package nodepod has short-lived pods look at nodes, and reads what they say. A
// pod is deleted in every case, also when the user interrupts all else; one whose
// process was killed ends by itself, and whoever comes next deletes it.
package nodepod

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/rand"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
)

// HostRoot is where a pod has the host's root.
const HostRoot = "/host"

// deleteWithin is how long the deletion of a pod may take, also after the user
// has interrupted all else.
const deleteWithin = 10 * time.Second

// ours are the labels of the pods.
var ours = map[string]string{"app.kubernetes.io/name": "nadra-probe", "app.kubernetes.io/managed-by": "kubectl-nadra"}

// Runner runs pods on nodes.
type Runner struct {
	Kube kubernetes.Interface
	// Raw gets what the API server has at a path.
	Raw func(ctx context.Context, path string) ([]byte, error)
	// Namespace is where the pods are made; it must let them see the host.
	Namespace string
	// Image is that of nadra-node.
	Image string
	// PullSecrets are the names of Secrets of the namespace that the image needs.
	PullSecrets []string
	// Timeout is how long one pod may take.
	Timeout time.Duration
	// Poll is how often a pod is asked for; the zero value is for tests.
	Poll time.Duration
}

// Pod is one that looks at a node: without rights of its own and, unless some
// are given, without capabilities, with the host's files read-only, and with the
// host's network so as to see its interfaces. It goes to its node past the
// scheduler, and past all taints.
func (r Runner) Pod(node string, args []string, capabilities ...corev1.Capability) *corev1.Pod {
	out := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Name: podName(), Namespace: r.Namespace, Labels: maps.Clone(ours)},
		Spec: corev1.PodSpec{
			NodeName:      node,
			RestartPolicy: corev1.RestartPolicyNever,
			HostNetwork:   true,
			// It ends also where nobody is left to delete it.
			ActiveDeadlineSeconds:         ptr.To(max(int64(r.Timeout.Seconds()), 1)),
			TerminationGracePeriodSeconds: ptr.To[int64](0),
			AutomountServiceAccountToken:  ptr.To(false),
			EnableServiceLinks:            ptr.To(false),
			Tolerations:                   []corev1.Toleration{{Operator: corev1.TolerationOpExists}},
			Containers: []corev1.Container{{
				Name: "probe", Image: r.Image, ImagePullPolicy: corev1.PullIfNotPresent,
				Args:            args,
				SecurityContext: confined(capabilities),
				VolumeMounts: []corev1.VolumeMount{{
					Name: "host", MountPath: HostRoot, ReadOnly: true, RecursiveReadOnly: ptr.To(corev1.RecursiveReadOnlyIfPossible),
				}},
			}},
			Volumes: []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}},
		},
	}
	for _, secret := range r.PullSecrets {
		out.Spec.ImagePullSecrets = append(out.Spec.ImagePullSecrets, corev1.LocalObjectReference{Name: secret})
	}
	return out
}

// Writing is a pod that may write to the host's files, and sees what is mounted
// there later; with SYS_CHROOT its programs can have them as their root.
func (r Runner) Writing(node string, args []string, capabilities ...corev1.Capability) *corev1.Pod {
	out := r.Pod(node, args, capabilities...)
	out.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{
		Name: "host", MountPath: HostRoot, MountPropagation: ptr.To(corev1.MountPropagationHostToContainer),
	}}
	return out
}

// confined is root, to whom the host's files and the runtime's socket belong,
// with no more than the capabilities given. SELinux keeps ordinary containers
// from the host's files, and AppArmor from the processes of other containers.
func confined(capabilities []corev1.Capability) *corev1.SecurityContext {
	out := &corev1.SecurityContext{
		RunAsUser:                ptr.To[int64](0),
		AllowPrivilegeEscalation: ptr.To(false),
		ReadOnlyRootFilesystem:   ptr.To(true),
		Capabilities:             &corev1.Capabilities{Drop: []corev1.Capability{"ALL"}, Add: capabilities},
		SELinuxOptions:           &corev1.SELinuxOptions{Type: "spc_t"},
	}
	if len(capabilities) > 0 {
		out.AllowPrivilegeEscalation = nil // the API refuses both together
		out.AppArmorProfile = &corev1.AppArmorProfile{Type: corev1.AppArmorProfileTypeUnconfined}
	}
	return out
}

// Run makes a pod, waits for its end, reads what it has said, and deletes it
// whatever happens.
func (r Runner) Run(ctx context.Context, pod *corev1.Pod) (log []byte, err error) {
	ctx, cancel := context.WithTimeout(ctx, r.Timeout)
	defer cancel()
	if _, err := r.Kube.CoreV1().Pods(r.Namespace).Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		if ctx.Err() != nil { // it may have been made all the same
			err = errors.Join(err, r.remove(ctx, pod.Name))
		}
		return nil, fmt.Errorf("making a pod in namespace %s: %w", r.Namespace, err)
	}
	defer func() {
		if gone := r.remove(ctx, pod.Name); gone != nil {
			err = errors.Join(err, gone)
		}
	}()
	if err := r.wait(ctx, pod.Name); err != nil {
		return nil, err
	}
	log, err = r.Raw(ctx, "/api/v1/namespaces/"+url.PathEscape(r.Namespace)+"/pods/"+pod.Name+"/log")
	if err != nil {
		return nil, fmt.Errorf("reading the log of pod %s: %w", pod.Name, err)
	}
	return log, nil
}

// remove deletes a pod at once, also when ctx has ended.
func (r Runner) remove(ctx context.Context, name string) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), deleteWithin)
	defer cancel()
	now := int64(0)
	err := r.Kube.CoreV1().Pods(r.Namespace).Delete(ctx, name, metav1.DeleteOptions{GracePeriodSeconds: &now})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("deleting pod %s/%s, which is left behind: %w", r.Namespace, name, err)
	}
	return nil
}

// wait waits until a pod has ended. When it does not, the error says what it
// waits for.
func (r Runner) wait(ctx context.Context, name string) error {
	last := "it was not seen"
	for {
		pod, err := r.Kube.CoreV1().Pods(r.Namespace).Get(ctx, name, metav1.GetOptions{})
		switch {
		case ctx.Err() != nil:
			return fmt.Errorf("waiting for pod %s: %w: %s", name, ctx.Err(), last)
		case err != nil:
			return fmt.Errorf("waiting for pod %s: %w", name, err)
		case pod.Status.Phase == corev1.PodSucceeded:
			return nil
		case pod.Status.Phase == corev1.PodFailed && len(pod.Status.ContainerStatuses) == 0:
			return fmt.Errorf("waiting for pod %s: the node refuses it: %s %s", name, pod.Status.Reason, pod.Status.Message)
		case pod.Status.Phase == corev1.PodFailed && !slices.ContainsFunc(pod.Status.ContainerStatuses, wasMade):
			return fmt.Errorf("waiting for pod %s: its time is over: %s", name, cmp.Or(waiting(pod), last))
		case pod.Status.Phase == corev1.PodFailed:
			return nil // its log says why
		}
		last = WaitsFor(pod)
		select {
		case <-ctx.Done():
		case <-time.After(r.Poll):
		}
	}
}

// wasMade reports whether there was a container, which may have a log.
func wasMade(s corev1.ContainerStatus) bool { return s.ContainerID != "" }

// waiting says what the first container that waits is waiting for; empty if none
// does.
func waiting(pod *corev1.Pod) string {
	for _, s := range pod.Status.ContainerStatuses {
		if w := s.State.Waiting; w != nil {
			return strings.TrimSpace(w.Reason + " " + w.Message)
		}
	}
	return ""
}

// WaitsFor says in which state a pod is.
func WaitsFor(pod *corev1.Pod) string {
	if why := waiting(pod); why != "" {
		return why
	}
	if pod.Status.Phase == "" || pod.Status.Phase == corev1.PodPending {
		return "the kubelet has not begun with it"
	}
	return "it is " + string(pod.Status.Phase)
}

// podName has a random part: several people may look at the same time.
func podName() string { return "nadra-probe-" + rand.String(8) }
