package driver

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"google.golang.org/grpc"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/klog/v2"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// wokenAnnotation on a pod says when the kubelet was last asked to try it again.
const wokenAnnotation = "nadra.dev/woken"

// waker wins back the minute that a pod loses whose claims the kubelet could not
// have prepared, as no driver was registered: after a reboot, with a new driver
// or a new kubelet. The kubelet tries such a pod again only when it syncs its
// pods, every minute; a pod that is changed it tries at once.
type waker struct {
	registered chan struct{} // of capacity 1
	// latest is what the kubelet has said of the driver last; nil before.
	latest atomic.Pointer[registration]
}

// registration is what the kubelet says of the driver.
type registration struct {
	at time.Time
	// refused says why the kubelet does not take it; empty when it does.
	refused string
}

// intercept notes that the kubelet has registered the driver.
func (w *waker) intercept(ctx context.Context, request any, _ *grpc.UnaryServerInfo, handle grpc.UnaryHandler) (any, error) {
	answer, err := handle(ctx, request)
	status, ok := request.(*registerapi.RegistrationStatus)
	if ok && !status.PluginRegistered {
		w.latest.Store(&registration{at: time.Now(), refused: cmp.Or(status.Error, "it does not say why")})
	}
	if ok && err == nil && status.PluginRegistered {
		w.latest.Store(&registration{at: time.Now()})
		select {
		case w.registered <- struct{}{}:
		default:
		}
	}
	return answer, err
}

// wakeAfterRegistration wakes the pods that wait, after every registration,
// until ctx ends. A pod that cannot be woken starts later.
func (d *Driver) wakeAfterRegistration(ctx context.Context) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-d.waker.registered:
		}
		if err := d.wake(ctx); err != nil && ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Pods that waited for the driver may start a minute later")
		}
	}
}

// wake has the kubelet try again the pods of this node that wait for it to
// prepare claims of this driver.
func (d *Driver) wake(ctx context.Context) error {
	pods, err := d.clients.Kube.CoreV1().Pods(metav1.NamespaceAll).List(ctx, metav1.ListOptions{
		FieldSelector: fields.OneTermEqualSelector("spec.nodeName", d.cfg.NodeName).String(),
	})
	if err != nil {
		return fmt.Errorf("listing the node's pods: %w", err)
	}
	var errs []error
	for _, pod := range pods.Items {
		waits, err := d.waitsForUs(ctx, &pod)
		if waits {
			err = d.touch(ctx, &pod)
		}
		if err != nil && !apierrors.IsNotFound(err) { // it is gone meanwhile
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// touch changes a pod so that the kubelet tries it again.
func (d *Driver) touch(ctx context.Context, pod *corev1.Pod) error {
	ref := attachment.PodRef{Namespace: pod.Namespace, Name: pod.Name, UID: string(pod.UID)}
	now := time.Now().UTC().Format(time.RFC3339Nano)
	if err := kube.AnnotatePod(ctx, d.clients.Kube, d.cfg.DriverName, ref, wokenAnnotation, now); err != nil {
		return fmt.Errorf("waking pod %s/%s: %w", pod.Namespace, pod.Name, err)
	}
	klog.FromContext(ctx).Info("The kubelet may have waited for the driver; had it try the pod again", "pod", klog.KObj(pod))
	return nil
}

// waitsForUs reports whether a pod waits for claims of this driver: what was
// prepared for it is not attached in this life of the node, or nothing was
// prepared, and one of its claims is allocated to the driver.
func (d *Driver) waitsForUs(ctx context.Context, pod *corev1.Pod) (bool, error) {
	over := pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
	if over || pod.DeletionTimestamp != nil || len(claimNames(pod)) == 0 {
		return false, nil
	}
	if records := d.store.ForPod(string(pod.UID)); len(records) > 0 {
		return slices.ContainsFunc(records, d.notInThisLife), nil
	}
	if pod.Status.Phase != corev1.PodPending {
		return false, nil
	}
	for _, name := range claimNames(pod) {
		claim, err := d.clients.Kube.ResourceV1().ResourceClaims(pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return false, fmt.Errorf("reading claim %s of pod %s/%s: %w", name, pod.Namespace, pod.Name, err)
		}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == d.cfg.DriverName {
				return true, nil
			}
		}
	}
	return false, nil
}

// notInThisLife reports whether a record's devices are in no sandbox that was
// made since the node was started.
func (d *Driver) notInThisLife(r checkpoint.Record) bool {
	return r.Sandbox == nil || r.BootID != d.store.BootID()
}

// claimNames returns the names of a pod's ResourceClaims, the one for its extended
// resources last.
func claimNames(pod *corev1.Pod) []string {
	var names []string
	for _, c := range pod.Spec.ResourceClaims {
		if c.ResourceClaimName != nil {
			names = append(names, *c.ResourceClaimName)
		}
	}
	for _, s := range pod.Status.ResourceClaimStatuses {
		if s.ResourceClaimName != nil {
			names = append(names, *s.ResourceClaimName)
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		names = append(names, s.ResourceClaimName)
	}
	return names
}
