package networkstatus

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

const (
	// Late is the time after which a status that is not stored is reported: containers
	// wait for it.
	Late = 2 * time.Second
	// StaleAfter is the age at which addresses that no status lists may belong to another
	// pod. The reconciler of whereabouts looks three times within a second at a pod
	// whose annotation lacks them, and then frees them. The rest of the second is for the
	// end of the plugin that has given them.
	StaleAfter = 700 * time.Millisecond
)

const (
	// workers is the number of statuses that are written at a time.
	workers = 8
	// writeTimeout limits one write, with what is read for it.
	writeTimeout = 5 * time.Second
	// shortestPause and longestPause limit the pause before the next try.
	shortestPause = 50 * time.Millisecond
	longestPause  = 5 * time.Second
)

// Options has what a Writer needs. All fields are required.
type Options struct {
	Kube kubernetes.Interface
	// Manager is the field manager of the writes.
	Manager string
	// DefaultNetwork describes the sandbox's interfaces on the default network.
	DefaultNetwork func(context.Context, attachment.Sandbox) ([]*nadv1.NetworkStatus, error)
	// Find returns what the driver's watch knows of a pod, or nil if the pod is unknown.
	Find func(attachment.PodRef) *metav1.PartialObjectMetadata
	// Links returns the names of the interfaces in a sandbox.
	Links func(attachment.Sandbox) ([]string, error)
	// Stored is called with the records of a status that is stored.
	Stored func([]checkpoint.Record) error
	// Late is called once for a status that is not stored after the time Late. err is
	// the error of the latest try, if one has failed.
	Late func(pod attachment.PodRef, err error)
}

// Writer stores the network-status of pods. Containers wait for it at the gate, as pods
// of Multus wait in its ADD: otherwise whereabouts, for example, takes a running pod
// without the annotation for one that is gone, and assigns its address again. So a
// write is tried again for as long as the pod exists.
type Writer struct {
	Options
	*background.Outbox[attachment.PodRef, update]
	exposed exposures
}

// update is a pod's pending status.
type update struct {
	sandbox attachment.Sandbox
	records []checkpoint.Record
	// repair leaves a pod alone whose annotation shows the records already.
	repair bool
	// partial lacks networks that are being attached.
	partial bool
	// first is for a sandbox whose containers wait. Others fail if the pod has changed since the watch
	// has seen it: what others write meanwhile is kept.
	first bool
}

// NewWriter returns a Writer.
func NewWriter(o Options) *Writer {
	return &Writer{
		Options: o, Outbox: background.New[attachment.PodRef, update](shortestPause, longestPause),
		exposed: exposures{byPod: map[attachment.PodRef]map[string]exposure{}},
	}
}

// Added tells the writer what a sandbox has got so far. The last record is new, and got its
// addresses at the time allocated. If ADDs of more networks follow, its addresses may be freed
// before they have ended: a status without them is queued, unless the pod's lists the
// addresses already.
func (w *Writer) Added(sandbox attachment.Sandbox, records []checkpoint.Record, allocated time.Time, more bool) {
	newest := records[len(records)-1]
	w.exposed.allocate(sandbox.Pod, newest, allocated)
	if more && !w.exposed.ended(sandbox.Pod, newest) && newest.Attachment.UsesIPAM(attachment.Whereabouts) {
		w.put(update{sandbox: sandbox, records: records, partial: true, first: true})
	}
}

// Set queues a status with the attached networks among these records.
func (w *Writer) Set(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.put(update{sandbox: sandbox, records: Listed(records), first: true})
}

// Repair does the same unless the pod shows the networks already.
func (w *Writer) Repair(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.put(update{sandbox: sandbox, records: Listed(records), repair: true})
}

// Replace queues a status as Set does, also if it lists no network any more.
func (w *Writer) Replace(sandbox attachment.Sandbox, records []checkpoint.Record) {
	w.queue(update{sandbox: sandbox, records: Listed(records)})
}

// Lists reports whether an annotation lists these records of a sandbox, and nothing that is gone.
func (w *Writer) Lists(sandbox attachment.Sandbox, text string, records []checkpoint.Record) bool {
	return lists(text, records, func() ([]string, error) { return w.Links(sandbox) })
}

// Listed returns the records that network-status is to list.
func Listed(records []checkpoint.Record) []checkpoint.Record {
	return checkpoint.Where(checkpoint.Networks(records), func(r checkpoint.Record) bool { return r.Phase == checkpoint.Attached })
}

func (w *Writer) put(u update) {
	if len(u.records) > 0 {
		w.queue(u)
	}
}

func (w *Writer) queue(u update) {
	pod, first := u.sandbox.Pod, false
	w.Put(pod, func(pending update, found bool) update {
		first = !found
		u.repair = u.repair && (!found || pending.repair)
		u.first = u.first || pending.first
		return u
	})
	if first {
		w.reportIfLate(pod)
	}
}

// reportIfLate calls Late if the pod's status is still not stored then.
func (w *Writer) reportIfLate(pod attachment.PodRef) {
	started, _ := w.Get(pod)
	time.AfterFunc(Late, func() {
		if p, found := w.Get(pod); found && p.Written == started.Written {
			w.Late(pod, p.Err)
		}
	})
}

// Pending is a status that is not stored yet.
type Pending struct {
	Records []checkpoint.Record
	// Since is the time at which it was queued, Err the error of the latest try.
	Since time.Time
	Err   error
	// Stored is closed when the status is stored or dropped.
	Stored <-chan struct{}
}

// Pending returns the pod's status that is not stored yet.
func (w *Writer) Pending(pod attachment.PodRef) (Pending, bool) {
	p, found := w.Get(pod)
	return Pending{Records: p.Update.records, Since: p.Since, Err: p.Err, Stored: p.Written}, found
}

// Forget drops the pending status of a pod whose networks could not be attached.
func (w *Writer) Forget(pod attachment.PodRef) {
	w.Outbox.Forget(pod)
	w.exposed.forget(pod)
}

// Run writes until ctx ends, and then for a short time what is still queued. It calls stale
// instead of Stored if addresses were listed so late that they may belong to another pod. If
// the pod then gets the same addresses again, its status has listed them since they were
// given.
func (w *Writer) Run(ctx context.Context, stale func(context.Context, attachment.Sandbox) error) {
	w.Outbox.Run(ctx, workers, func(ctx context.Context, pod attachment.PodRef, p background.Pending[update], tries int) error {
		return w.write(ctx, pod, p, tries, stale)
	})
}

// write stores one pod's status and then opens the gate, or has the pod attached again.
// It returns an error to be called again, unless the pod or its sandbox is gone. That the watch does not have the
// pod proves nothing: it may lag.
func (w *Writer) write(ctx context.Context, pod attachment.PodRef, p background.Pending[update], tries int, stale func(context.Context, attachment.Sandbox) error) error {
	failpoint.Reach(failpoint.BeforeStatusWrite)
	defer failpoint.Reach(failpoint.AfterStatusWrite)
	err := w.store(ctx, p.Update)
	if err == nil {
		w.exposed.show(pod, p.Update.records, time.Now())
	}
	switch {
	case err != nil || p.Update.partial:
	case w.isStale(pod, p):
		err = stale(ctx, p.Update.sandbox)
	default:
		if err = w.Stored(p.Update.records); err == nil {
			w.exposed.forget(pod)
		}
	}
	switch {
	case err == nil:
		return nil
	case apierrors.IsNotFound(err), errors.Is(err, podns.ErrGone), errors.Is(err, podns.ErrHost):
		klog.FromContext(ctx).V(2).Info("Dropping the network-status of a pod that is gone", "pod", pod, "err", err)
		w.exposed.forget(pod)
		return nil
	}
	if tries == 0 {
		klog.FromContext(ctx).Info("Storing network-status failed; trying again while containers wait", "pod", pod, "err", err)
	}
	return err
}

// Missing reports whether containers wait for network-status to list a record: not for one that
// an edit has added to the running sandbox.
func Missing(r checkpoint.Record) bool {
	live := r.LiveIn != "" && (r.Sandbox == nil || r.Live(r.Sandbox.ID))
	return Unlisted(r) && !live
}

// Unlisted reports whether network-status is to list a record and is not stored with it yet.
func Unlisted(r checkpoint.Record) bool { return !r.DeviceOnly && !r.Removed && !r.StatusStored }

// isStale reports whether a status was stored so late that its addresses may have been
// freed. For networks whose addresses nobody is known to free by
// network-status, only a status whose writes have failed counts as late: Multus fails
// the sandbox in that case, which allocates the addresses again, too.
func (w *Writer) isStale(pod attachment.PodRef, p background.Pending[update]) bool {
	return slices.ContainsFunc(p.Update.records, func(r checkpoint.Record) bool {
		return Unlisted(r) && !w.exposed.ended(pod, r) && (p.Err != nil || r.Attachment.UsesIPAM(attachment.Whereabouts))
	})
}

// store patches the pod, or the mirror pod of a static one. A repair leaves a status alone that shows the networks.
func (w *Writer) store(ctx context.Context, u update) error {
	pod, before, version := u.sandbox.Pod, "", ""
	if m := w.Find(pod); m != nil {
		before = m.Annotations[nadv1.NetworkStatusAnnot]
		if u.repair && Shows(before, u.records) {
			return nil
		}
		pod.UID = string(m.UID)
		if !u.first {
			version = m.ResourceVersion
		}
	}
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	first, err := w.DefaultNetwork(ctx, u.sandbox)
	if err != nil {
		return fmt.Errorf("describing the default network: %w", err)
	}
	text, err := Text(first, u.records, before, func() ([]string, error) { return w.Links(u.sandbox) })
	if err != nil {
		return err
	}
	return kube.AnnotatePod(ctx, w.Kube, w.Manager, pod, version, nadv1.NetworkStatusAnnot, text)
}
