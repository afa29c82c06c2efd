package driver

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	resourceac "k8s.io/client-go/applyconfigurations/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// statusTimeout bounds one write to the API server.
	statusTimeout = 10 * time.Second
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
	queue      workqueue.TypedRateLimitingInterface[statusKey]

	mu     sync.Mutex // guards the maps
	claims map[attachment.ClaimRef]claimUpdate
	pods   map[attachment.PodRef]podUpdate
}

// statusKey is one object to write; exactly one field is set.
type statusKey struct {
	claim attachment.ClaimRef
	pod   attachment.PodRef
}

type claimUpdate struct {
	devices []deviceState
	at      time.Time
}

type podUpdate struct {
	sandbox attachment.Sandbox
	records []checkpoint.Record
}

func newStatusWriter(kube kubernetes.Interface, driver string, defaultNet func(attachment.Sandbox) (*nadv1.NetworkStatus, error)) *statusWriter {
	return &statusWriter{
		kube: kube, driver: driver, defaultNet: defaultNet,
		queue:  workqueue.NewTypedRateLimitingQueue(workqueue.DefaultTypedControllerRateLimiter[statusKey]()),
		claims: map[attachment.ClaimRef]claimUpdate{},
		pods:   map[attachment.PodRef]podUpdate{},
	}
}

// setClaim asks for the claim's status.devices to become these.
func (w *statusWriter) setClaim(claim attachment.ClaimRef, devices []deviceState) {
	w.mu.Lock()
	w.claims[claim] = claimUpdate{devices: devices, at: time.Now()}
	w.mu.Unlock()
	w.queue.Add(statusKey{claim: claim})
}

// setPod asks for the pod's network-status to list these records.
func (w *statusWriter) setPod(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.mu.Lock()
	w.pods[sandbox.Pod] = podUpdate{sandbox: sandbox, records: records}
	w.mu.Unlock()
	w.queue.Add(statusKey{pod: sandbox.Pod})
}

// forget drops what is still to be written for a claim.
func (w *statusWriter) forget(claim attachment.ClaimRef) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.claims, claim)
}

// run writes until ctx ends.
func (w *statusWriter) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, w.queue.ShutDown)
	defer stop()
	for {
		key, shutdown := w.queue.Get()
		if shutdown {
			return nil
		}
		w.finish(ctx, key, w.write(ctx, key))
	}
}

// finish decides whether a write is tried again.
func (w *statusWriter) finish(ctx context.Context, key statusKey, err error) {
	defer w.queue.Done(key)
	switch {
	case err == nil, apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// Gone, or another object of the same name: nobody is left to tell.
	case w.queue.NumRequeues(key) < statusRetries:
		klog.FromContext(ctx).V(2).Info("Writing status failed; trying again", "claim", key.claim, "pod", key.pod, "err", err)
		w.queue.AddRateLimited(key)
		return
	default:
		klog.FromContext(ctx).Error(err, "Giving up writing status", "claim", key.claim, "pod", key.pod)
	}
	w.queue.Forget(key)
}

func (w *statusWriter) write(ctx context.Context, key statusKey) error {
	ctx, cancel := context.WithTimeout(ctx, statusTimeout)
	defer cancel()
	if key.claim.UID != "" {
		return w.writeClaim(ctx, key.claim)
	}
	return w.writePod(ctx, key.pod)
}

// writeClaim makes one server-side apply with all devices of the claim: with
// one per device, each would take away the one before.
func (w *statusWriter) writeClaim(ctx context.Context, claim attachment.ClaimRef) error {
	w.mu.Lock()
	update, ok := w.claims[claim]
	w.mu.Unlock()
	if !ok {
		return nil
	}
	status := resourceac.ResourceClaimStatus()
	for _, d := range update.devices {
		status.WithDevices(d.apply(w.driver, update.at))
	}
	ac := resourceac.ResourceClaim(claim.Name, claim.Namespace).WithUID(types.UID(claim.UID)).WithStatus(status)
	_, err := w.kube.ResourceV1().ResourceClaims(claim.Namespace).ApplyStatus(ctx, ac,
		metav1.ApplyOptions{FieldManager: w.driver, Force: true})
	if err != nil {
		return err
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.claims[claim].at.Equal(update.at) {
		delete(w.claims, claim)
	}
	return nil
}

func (w *statusWriter) writePod(ctx context.Context, pod attachment.PodRef) error {
	w.mu.Lock()
	update, ok := w.pods[pod]
	delete(w.pods, pod)
	w.mu.Unlock()
	if !ok {
		return nil
	}
	err := w.patchPod(ctx, update)
	if err != nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		if _, newer := w.pods[pod]; !newer {
			w.pods[pod] = update
		}
	}
	return err
}

// patchPod sets the annotation by way of the status subresource: the driver
// needs no permission to change pods. The UID keeps a pod of the same name safe.
func (w *statusWriter) patchPod(ctx context.Context, u podUpdate) error {
	first, err := w.defaultNet(u.sandbox)
	if err != nil {
		return fmt.Errorf("describing the default network: %w", err)
	}
	text, err := networkStatus(first, u.records)
	if err != nil {
		return err
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{
		"uid":         u.sandbox.Pod.UID,
		"annotations": map[string]string{nadv1.NetworkStatusAnnot: text},
	}})
	if err != nil {
		return err
	}
	_, err = w.kube.CoreV1().Pods(u.sandbox.Pod.Namespace).Patch(ctx, u.sandbox.Pod.Name,
		types.MergePatchType, patch, metav1.PatchOptions{FieldManager: w.driver}, "status")
	return err
}
