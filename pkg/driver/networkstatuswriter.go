package driver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// networkStatusWorkers is how many pods' network-status are written at a time.
	networkStatusWorkers = 8
	// networkStatusTimeout bounds one write.
	networkStatusTimeout = 5 * time.Second
	// networkStatusLate is how long a write takes without an event: containers
	// wait for it.
	networkStatusLate = 2 * time.Second
	// networkStatusStale is the age at which a status is not believed any more that
	// others go by. whereabouts' reconciler looks at a pod without it three times
	// within a second before it frees the pod's addresses; the rest of that is for
	// the end of the ADD, in which the address was allocated.
	networkStatusStale = 700 * time.Millisecond
	// networkRetryMin and networkRetryMax bound the pause before the next attempt.
	networkRetryMin = 50 * time.Millisecond
	networkRetryMax = 5 * time.Second
)

// networkStatusWriter stores the annotation network-status of pods. Containers
// wait for it at the gate, as pods of Multus do in its ADD: whereabouts, for
// example, takes a running pod without it for one that is gone, and gives its
// address away. So a write is tried again for as long as the pod exists.
type networkStatusWriter struct {
	kube    kubernetes.Interface
	manager string
	// defaultNet describes the sandbox's interface on the default network.
	defaultNet func(attachment.Sandbox) (*nadv1.NetworkStatus, error)
	pods       podMetadata
	// stored is called with the records of a status that is stored.
	stored func([]checkpoint.Record) error
	// again is called instead for a status that is stored so late that the
	// addresses in it may be another pod's by now.
	again func(context.Context, attachment.Sandbox) error
	// late is called once for a write that takes longer than networkStatusLate,
	// with what its latest attempt failed with, if it did.
	late   func(pod attachment.PodRef, err error)
	outbox *outbox[attachment.PodRef, networkStatusUpdate]
}

// podMetadata reads what the driver's watch has seen of pods.
type podMetadata interface {
	// find returns a pod's metadata as last seen; nil when it is not known.
	find(attachment.PodRef) *metav1.PartialObjectMetadata
	// absent reports whether the API server has no such pod on this node.
	absent(attachment.PodRef) bool
}

// networkStatusUpdate has a pod's network-status list these records.
type networkStatusUpdate struct {
	sandbox attachment.Sandbox
	records []checkpoint.Record
	// repair asks to write only what the pod does not show already.
	repair bool
}

func newNetworkStatusWriter(w networkStatusWriter) *networkStatusWriter {
	w.outbox = newOutbox[attachment.PodRef, networkStatusUpdate](networkRetryMin, networkRetryMax)
	return &w
}

// set has the pod's network-status list the networks among these records.
func (w *networkStatusWriter) set(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.put(networkStatusUpdate{sandbox: sandbox, records: networksIn(records)})
}

// repair is set for a status that may be stored already.
func (w *networkStatusWriter) repair(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.put(networkStatusUpdate{sandbox: sandbox, records: networksIn(records), repair: true})
}

func (w *networkStatusWriter) put(u networkStatusUpdate) {
	if len(u.records) == 0 {
		return
	}
	pod, first := u.sandbox.Pod, false
	w.outbox.put(pod, func(pending networkStatusUpdate, found bool) networkStatusUpdate {
		first = !found
		u.repair = u.repair && (!found || pending.repair)
		return u
	})
	if first {
		w.watchFor(pod)
	}
}

// watchFor tells of the pod's update if that is pending for too long.
func (w *networkStatusWriter) watchFor(pod attachment.PodRef) {
	started, _ := w.outbox.look(pod)
	time.AfterFunc(networkStatusLate, func() {
		if p, found := w.outbox.look(pod); found && p.written == started.written {
			w.late(pod, p.err)
		}
	})
}

// run writes until ctx ends, and then for a moment what is still in the queue.
func (w *networkStatusWriter) run(ctx context.Context) {
	w.outbox.run(ctx, networkStatusWorkers, statusDrain, w.write)
}

// write stores one pod's status and then has the gate open, or the pod attached
// again. It returns an error where that is to be tried again: unless the pod or its
// sandbox is gone.
func (w *networkStatusWriter) write(ctx context.Context, pod attachment.PodRef, p pendingUpdate[networkStatusUpdate], tries int) error {
	failpoint.Reach(failpoint.BeforeStatusWrite)
	defer failpoint.Reach(failpoint.AfterStatusWrite)
	err := w.store(ctx, p.update)
	switch {
	case err != nil:
	case isStale(p, time.Now()):
		err = w.again(ctx, p.update.sandbox)
	default:
		err = w.stored(p.update.records)
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err), w.pods.absent(pod), errors.Is(err, podns.ErrGone), errors.Is(err, podns.ErrHost):
		klog.FromContext(ctx).V(2).Info("Dropping the network-status of a pod that is gone", "pod", pod, "err", err)
		return nil
	}
	if tries == 0 {
		klog.FromContext(ctx).Info("Storing network-status failed; trying again while containers wait", "pod", pod, "err", err)
	}
	return err
}

// isStale reports whether containers wait for a status that is stored so late that
// the addresses in it may have been freed. Of networks of which nobody is known to
// free them, only a status counts as late whose writes have failed: Multus, which
// fails the sandbox then, has them allocated again, too.
func isStale(p pendingUpdate[networkStatusUpdate], now time.Time) bool {
	atRisk := func(r checkpoint.Record) bool {
		return statusMissing(r) && (p.err != nil || goesByStatus(r.Attachment))
	}
	return now.Sub(p.since) >= networkStatusStale && slices.ContainsFunc(p.update.records, atRisk)
}

// store patches the pod; a repair leaves alone a status that shows the networks.
func (w *networkStatusWriter) store(ctx context.Context, u networkStatusUpdate) error {
	if m := w.pods.find(u.sandbox.Pod); u.repair && m != nil && showsNetworks(m.Annotations[nadv1.NetworkStatusAnnot], u.records) {
		return nil
	}
	first, err := w.defaultNet(u.sandbox)
	if err != nil {
		return fmt.Errorf("describing the default network: %w", err)
	}
	text, err := networkStatus(first, u.records)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, networkStatusTimeout)
	defer cancel()
	return annotate(ctx, w.kube, w.manager, u.sandbox.Pod, nadv1.NetworkStatusAnnot, text)
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
