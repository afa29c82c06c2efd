package driver

import (
	"context"
	"slices"
	"time"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// editsAtStart limits the time for which a new sandbox waits until it has the records of edits.
const editsAtStart = 5 * time.Second

// begin gives a new sandbox of a pod with claims what edits of the annotation have made of its
// networks, before the sandbox is attached: its containers wait for added networks as for the
// others. What cannot be prepared does not keep the pod from starting: it is left to follow.
func (e *podEdits) begin(ctx context.Context, sandbox attachment.Sandbox) {
	claimed := slices.DeleteFunc(e.store.ForPod(sandbox.Pod.UID), checkpoint.Record.Unclaimed)
	annotation := *sandbox.Networks
	if known := e.watch.Find(sandbox.Pod); known != nil { // the kubelet may make the sandbox of a pod that it saw before an edit
		annotation = e.annotation.text(known.Annotations)
	}
	pod := podedit.Pod{Namespace: sandbox.Pod.Namespace, Baseline: baselineOf(claimed, sandbox), Annotation: annotation, Records: claimed}
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
	if err := clearEarlier(ctx, e.store, e.attacher, sandbox); err != nil {
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
func clearEarlier(ctx context.Context, store *checkpoint.Store, attacher *attach.Attacher, sandbox attachment.Sandbox) error {
	earlier := func(r checkpoint.Record) bool { return r.Unclaimed() && !checkpoint.InSandbox(sandbox.ID)(r) }
	if err := attacher.Detach(ctx, sandbox.Pod.UID, earlier); err != nil {
		return reason.Errorf(reason.PendingDEL, "clearing what was attached before: %w", err)
	}
	return forgetUnclaimed(store, sandbox.Pod, earlier)
}
