package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/retry"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// statusTimeout bounds one write to the API server.
	statusTimeout = 10 * time.Second
	// statusDrain bounds the writes that are left when the driver stops.
	statusDrain = 5 * time.Second
	// statusRetries is how often a write is tried again; with the queue's
	// back-off that is some minutes of a failing API server.
	statusRetries = 15
)

// statusWriter tells the API server what happened, behind a queue: no pod
// waits for it. Of several updates of one object the last wins.
type statusWriter struct {
	kube       kubernetes.Interface
	driver     string
	defaultNet func(attachment.Sandbox) (*nadv1.NetworkStatus, error)
	// known returns a pod's metadata as last seen; nil when it is not known.
	known func(attachment.PodRef) *metav1.PartialObjectMetadata
	queue workqueue.TypedRateLimitingInterface[statusKey]

	mu      sync.Mutex // guards pending
	pending map[statusKey]statusUpdate
}

// statusKey is one object to write; exactly one field is set.
type statusKey struct {
	claim attachment.ClaimRef
	pod   attachment.PodRef
}

// statusUpdate is what an object is to say.
type statusUpdate struct {
	// of a claim: its devices, and when they became so
	devices []deviceState
	at      time.Time
	// of a pod: its attachments in this sandbox
	sandbox attachment.Sandbox
	records []checkpoint.Record
	// since is when the object came to wait for an update.
	since time.Time
	// repair asks to write only what is not there already.
	repair bool
}

func newStatusWriter(kube kubernetes.Interface, driver string, defaultNet func(attachment.Sandbox) (*nadv1.NetworkStatus, error)) *statusWriter {
	return &statusWriter{
		kube: kube, driver: driver, defaultNet: defaultNet,
		known:   func(attachment.PodRef) *metav1.PartialObjectMetadata { return nil },
		queue:   workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[statusKey]()),
		pending: map[statusKey]statusUpdate{},
	}
}

// setClaim asks for the claim's status.devices to become these.
func (w *statusWriter) setClaim(claim attachment.ClaimRef, devices []deviceState) {
	w.set(statusKey{claim: claim}, statusUpdate{devices: devices, at: time.Now()})
}

// setPod asks for the pod's network-status to list these records.
func (w *statusWriter) setPod(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.setNetworks(statusUpdate{sandbox: sandbox, records: networksIn(records)})
}

// setNetworks asks for nothing where there are none.
func (w *statusWriter) setNetworks(u statusUpdate) {
	if len(u.records) > 0 {
		w.set(statusKey{pod: u.sandbox.Pod}, u)
	}
}

// repair asks for both to be as these records say, where they are not.
func (w *statusWriter) repair(sandbox attachment.Sandbox, records []checkpoint.Record) {
	for claim, devices := range statesByClaim(records, uncheckedState) {
		w.set(statusKey{claim: claim}, statusUpdate{devices: devices, at: time.Now(), repair: true})
	}
	w.setNetworks(statusUpdate{sandbox: sandbox, records: networksIn(records), repair: true})
}

func (w *statusWriter) set(key statusKey, update statusUpdate) {
	w.mu.Lock()
	w.put(key, update)
	w.mu.Unlock()
	w.queue.Add(key)
}

// put replaces what an object is to say, which has waited for as long. The
// caller holds mu.
func (w *statusWriter) put(key statusKey, update statusUpdate) {
	if update.since = time.Now(); !w.pending[key].since.IsZero() {
		update.since = w.pending[key].since
	}
	w.pending[key] = update
}

// waiting is what has been asked for and is not being written.
func (w *statusWriter) waiting(now time.Time) metrics.Queue {
	w.mu.Lock()
	defer w.mu.Unlock()
	q := metrics.Queue{Length: len(w.pending)}
	for _, update := range w.pending {
		q.Oldest = max(q.Oldest, now.Sub(update.since))
	}
	return q
}

// take returns what is to be written, which is then this caller's to write.
func (w *statusWriter) take(key statusKey) (statusUpdate, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	update, ok := w.pending[key]
	delete(w.pending, key)
	return update, ok
}

// putBack returns what could not be written, unless there is a newer update.
func (w *statusWriter) putBack(key statusKey, update statusUpdate) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, newer := w.pending[key]; !newer {
		w.pending[key] = update
	}
}

// forget drops what is still to be written for a claim.
func (w *statusWriter) forget(claim attachment.ClaimRef) { w.take(statusKey{claim: claim}) }

// run writes until ctx ends, and then for a moment what is still in the queue.
func (w *statusWriter) run(ctx context.Context) error {
	writing, cancel := context.WithCancel(context.WithoutCancel(ctx))
	defer cancel()
	stop := context.AfterFunc(ctx, func() {
		w.queue.ShutDown()
		time.AfterFunc(statusDrain, cancel)
	})
	defer stop()
	for {
		key, shutdown := w.queue.Get()
		if shutdown {
			return nil
		}
		w.process(writing, key)
	}
}

// process writes one update and decides whether it is tried again.
func (w *statusWriter) process(ctx context.Context, key statusKey) {
	defer w.queue.Done(key)
	update, ok := w.take(key)
	if !ok {
		return
	}
	err := w.write(ctx, key, update)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err), errors.Is(err, errNoNamespace):
		// Written; or the object is gone, or another one of the same name, or
		// the pod's network namespace: nobody is left to tell.
	case w.queue.NumRequeues(key) < statusRetries:
		klog.FromContext(ctx).V(2).Info("Writing status failed; trying again", "claim", key.claim, "pod", key.pod, "err", err)
		w.putBack(key, update)
		w.queue.AddRateLimited(key)
		return
	default:
		klog.FromContext(ctx).Error(err, "Giving up writing status", "claim", key.claim, "pod", key.pod)
	}
	w.queue.Forget(key)
}

func (w *statusWriter) write(ctx context.Context, key statusKey, update statusUpdate) error {
	failpoint.Reach(failpoint.BeforeStatusWrite)
	defer failpoint.Reach(failpoint.AfterStatusWrite)
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if key.claim.UID != "" {
		return w.applyClaim(ctx, key.claim, update)
	}
	return w.patchPod(ctx, update)
}

// applyClaim makes one server-side apply with all devices of the claim: with
// one per device, each would take away the one before.
func (w *statusWriter) applyClaim(ctx context.Context, claim attachment.ClaimRef, u statusUpdate) error {
	if u.repair {
		current, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != claim.UID || isReported(current, w.driver, u.devices) {
			return err
		}
	}
	status := resourceac.ResourceClaimStatus()
	for _, d := range u.devices {
		status.WithDevices(d.apply(w.driver, u.at))
	}
	ac := resourceac.ResourceClaim(claim.Name, claim.Namespace).WithUID(types.UID(claim.UID)).WithStatus(status)
	_, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, ac,
		metav1.ApplyOptions{FieldManager: w.driver, Force: true})
	if apierrors.IsInvalid(err) {
		err = w.updateClaim(ctx, claim, status)
	}
	return err
}

// updateClaim does by reading and writing what an apply cannot. The API server
// (1.36) makes an apply by writing the whole claim anew, the opaque parameters
// in its allocation with sorted keys and other numbers; when a client has
// written them otherwise, it takes that for a change of the allocation, and
// "field is immutable".
func (w *statusWriter) updateClaim(ctx context.Context, claim attachment.ClaimRef, status *resourceac.ResourceClaimStatusApplyConfiguration) error {
	raw, err := json.Marshal(status)
	if err != nil {
		return err
	}
	var ours resourceapi.ResourceClaimStatus
	if err := json.Unmarshal(raw, &ours); err != nil {
		return err
	}
	claims := w.kube.ResourceV1().ResourceClaims(claim.Namespace)
	return retry.RetryOnConflict(retry.DefaultRetry, func() error {
		current, err := claims.Get(ctx, claim.Name, metav1.GetOptions{})
		if err != nil || string(current.UID) != claim.UID {
			return err
		}
		current.Status.Devices = append(slices.DeleteFunc(current.Status.Devices, func(d resourceapi.AllocatedDeviceStatus) bool {
			return d.Driver == w.driver
		}), ours.Devices...)
		_, err = claims.UpdateStatus(ctx, current, metav1.UpdateOptions{FieldManager: w.driver})
		return err
	})
}

// patchPod sets network-status; a repair leaves one that is right alone.
func (w *statusWriter) patchPod(ctx context.Context, u statusUpdate) error {
	first, err := w.defaultNet(u.sandbox)
	if err != nil {
		return fmt.Errorf("describing the default network: %w", err)
	}
	text, err := networkStatus(first, u.records)
	if err != nil {
		return err
	}
	if m := w.known(u.sandbox.Pod); u.repair && m != nil && m.Annotations[nadv1.NetworkStatusAnnot] == text {
		return nil
	}
	return annotate(ctx, w.kube, w.driver, u.sandbox.Pod, nadv1.NetworkStatusAnnot, text)
}

// annotate sets an annotation of a pod by way of the status subresource: the
// driver needs no permission to change pods. The UID keeps a pod of the same
// name safe.
func annotate(ctx context.Context, kube kubernetes.Interface, manager string, pod attachment.PodRef, annotation, text string) error {
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         pod.UID,
		"annotations": map[string]string{annotation: text},
	}})
	if err != nil {
		return err
	}
	_, err = kube.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch,
		metav1.PatchOptions{FieldManager: manager}, "status")
	return err
}
