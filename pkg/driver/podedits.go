package driver

import (
	"context"
	"slices"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/util/workqueue"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

const (
	// shortestEditPause and longestEditPause limit the pause before another try to make a pod's
	// networks follow its annotation.
	shortestEditPause = 250 * time.Millisecond
	longestEditPause  = 15 * time.Second
	// editTime limits one change of a pod's networks. The next try goes on.
	editTime = 5 * time.Minute
)

// podEdits makes the networks of running pods follow their annotation: it compares what the
// annotation asks for with the pod's records, whenever one of the two may have changed. No
// container waits for it.
type podEdits struct {
	podEditor
	queue workqueue.TypedRateLimitingInterface[string] // of UIDs of pods
}

// newPodEdits returns podEdits with an empty queue.
func newPodEdits(p *pods) *podEdits {
	return &podEdits{podEditor: podEditor{pods: p}, queue: workqueue.NewTypedRateLimitingQueue(
		workqueue.NewTypedItemExponentialFailureRateLimiter[string](shortestEditPause, longestEditPause))}
}

// run changes networks until ctx ends. Changes that have begun then have some time to end.
func (e *podEdits) run(ctx context.Context) error {
	stop := context.AfterFunc(ctx, e.queue.ShutDown)
	defer stop()
	for {
		uid, shutdown := e.queue.Get()
		if shutdown {
			return nil
		}
		e.operations.Go(func(ctx context.Context) {
			defer e.queue.Done(uid)
			e.follow(ctx, uid)
		})
	}
}

// follow makes the networks of one pod follow its annotation, and schedules another try if
// something has failed.
func (e *podEdits) follow(ctx context.Context, uid string) {
	s, found := e.sandboxes.of(uid)
	if !found || s.pending || !e.due(s) {
		e.queue.Forget(uid)
		return
	}
	ctx = operations.WithPod(ctx, s.Pod)
	ctx, end := e.sandboxes.change(ctx, uid)
	defer end()
	op := operations.Operation{Pod: s.Pod, Manner: operations.Behind, Limit: editTime, Over: reason.Errorf(reason.AttachTimeout, "a change of a pod's networks may take %s", editTime)}
	err := e.operations.Do(ctx, op, func(ctx context.Context) error { return e.followLocked(ctx, uid) })
	if err = unlessCancelled(ctx, err); err != nil {
		klog.FromContext(ctx).Error(err, "The networks of a running pod do not follow its annotation yet; trying again", "sandbox", s.ID)
		e.queue.AddRateLimited(uid)
		return
	}
	e.queue.Forget(uid)
}

// followLocked changes the networks of a pod while no other operation on it runs. It returns an
// error if another try may succeed.
func (e *podEdits) followLocked(ctx context.Context, uid string) error {
	s, found := e.sandboxes.of(uid) // it may have ended while this waited
	if !found || s.pending {
		return nil
	}
	return e.change(ctx, s)
}

// unlessCancelled returns err, or nil if ctx was cancelled: the sandbox, or the driver, ends.
func unlessCancelled(ctx context.Context, err error) error {
	if isCancelled(context.Cause(ctx)) {
		return nil
	}
	return err
}

// started adds a sandbox that has its records, or is to have none.
func (e *podEdits) started(s liveSandbox) {
	s.pending = false
	e.sandboxes.add(s)
	e.changed(s.Pod.UID)
}

// stopped removes a sandbox that ends. It reports whether a change of its networks has still to end.
func (e *podEdits) stopped(podUID, sandboxID string) (changing bool) {
	e.failures.forget(podUID)
	return e.sandboxes.remove(podUID, sandboxID, errStopped)
}

// changed compares a pod's annotation with its networks soon, without the pause after a failure.
func (e *podEdits) changed(podUID string) {
	e.queue.Forget(podUID)
	e.queue.Add(podUID)
}

// podChanged does so if the change of a pod matters.
func (e *podEdits) podChanged(before, now *metav1.PartialObjectMetadata) {
	if before == nil || before.UID != now.UID || isEdit(before, now) {
		e.changed(string(now.UID))
	}
}

// isEdit reports whether a change of a pod is one of its networks, or of what network-status says
// about them.
func isEdit(before, now *metav1.PartialObjectMetadata) bool {
	return slices.ContainsFunc([]string{attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation, nadv1.NetworkStatusAnnot}, func(key string) bool {
		return before.Annotations[key] != now.Annotations[key]
	})
}

// sweep compares all pods, for changes that no event has reported, and forgets sandboxes whose
// pods are gone. It keeps a sandbox in the host's network that has devices: only the runtime reports its end. A pod that
// waits after a failure goes on waiting.
func (e *podEdits) sweep() {
	for _, s := range e.sandboxes.all() {
		switch {
		case !s.static && e.watch.absent(s.Pod) && !e.hasOnlyDevices(s.Sandbox):
			e.stopped(s.Pod.UID, s.ID)
		case !s.pending && e.queue.NumRequeues(s.Pod.UID) == 0 && e.due(s):
			e.queue.Add(s.Pod.UID)
		}
	}
}

// editsAtStart limits the time for which a new sandbox waits until it has the records of edits.
const editsAtStart = 5 * time.Second

// begin gives a new sandbox of a pod with claims what edits of the annotation have made of its
// networks, before the sandbox is attached: its containers wait for added networks as for the
// others. What cannot be prepared does not keep the pod from starting: it is left to follow.
func (e *podEdits) begin(ctx context.Context, sandbox attachment.Sandbox) {
	claimed := slices.DeleteFunc(e.store.ForPod(sandbox.Pod.UID), checkpoint.Record.Unclaimed)
	pod := podedit.Pod{Namespace: sandbox.Pod.Namespace, Baseline: baselineOf(claimed, sandbox), Annotation: *sandbox.Networks, Described: sandbox.Described, Records: claimed}
	if known := e.watch.Find(sandbox.Pod); known != nil { // the kubelet may make the sandbox of a pod that it saw before an edit
		pod.Annotation = e.cfg.networksText(known.Annotations)
	}
	if !e.owner.owned() || sandbox.NetNS == "" || !podedit.Due(pod) {
		return
	}
	op := operations.Operation{Pod: sandbox.Pod, Limit: editsAtStart, Over: reason.Errorf(reason.AttachTimeout, "a new sandbox waits %s for the edits of its networks", editsAtStart)}
	err := e.operations.Do(ctx, op, func(ctx context.Context) error { return e.beginLocked(ctx, sandbox, pod) })
	if err != nil {
		klog.FromContext(ctx).Error(err, "A new sandbox does not follow the edited annotation yet; its networks are changed once they are attached", "sandbox", sandbox.ID)
	}
}

// beginLocked records what the new sandbox gets, while no other operation on its pod runs.
func (e *podEdits) beginLocked(ctx context.Context, sandbox attachment.Sandbox, pod podedit.Pod) error {
	if err := e.clearEarlier(ctx, sandbox); err != nil {
		return err
	}
	ns, err := e.attacher.Netns.Inspect(sandbox.NetNS)
	if err != nil {
		return err
	}
	sandbox.Cookie = ns.Cookie
	plan := podedit.Make(pod) // what it refuses, follow reports
	if err := e.record(plan); err != nil {
		return err
	}
	if len(plan.Back) > 0 {
		if err := checkpoint.NewEdits(e.store).MarkWanted("", checkpoint.Keys(plan.Back)...); err != nil {
			return err
		}
	}
	s := liveSandbox{Sandbox: sandbox}
	var added []attachment.Prepared
	for _, a := range plan.Add {
		if e.owner.exempts(sandbox.Pod.String()) {
			break
		}
		if prepared, err := e.planAdded(s, a); err == nil { // otherwise follow reports it
			added = append(added, prepared)
		}
	}
	return e.store.PutUnclaimed(added, sandbox)
}

// clearEarlier deletes and forgets what a pod had without a claim in earlier sandboxes. The caller
// holds the pod's lock.
func (p *pods) clearEarlier(ctx context.Context, sandbox attachment.Sandbox) error {
	earlier := func(r checkpoint.Record) bool { return r.Unclaimed() && !checkpoint.InSandbox(sandbox.ID)(r) }
	if err := p.attacher.Detach(ctx, sandbox.Pod.UID, earlier); err != nil {
		return reason.Errorf(reason.PendingDEL, "clearing what was attached before: %w", err)
	}
	return p.forgetUnclaimed(sandbox.Pod, earlier)
}
