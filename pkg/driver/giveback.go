package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/internal/podns"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// giveBack gives sandboxes to Multus: those that nadra has adopted, and those that nadra has attached
// without a claim. It forgets their records, unless the runtime is without Multus.
func (a *adopter) giveBack(ctx context.Context, without bool) error {
	errs := []error{a.handOverAll(ctx)}
	taken, problems, err := a.custody.dir.Taken()
	errs = append(errs, err)
	for _, s := range taken {
		errs = append(errs, a.operations.Do(operations.WithPod(ctx, s.Pod), changesHands(s.Pod, s.ID), func(ctx context.Context) error { return a.giveBackOne(ctx, s) }))
	}
	a.reportProblems(ctx, problems)
	if without {
		return errors.Join(errs...)
	}
	for _, r := range a.store.All() {
		if r.Adopted && a.custody.dir.Holder(r.Sandbox.ID) == multusstate.Multus {
			errs = append(errs, a.adoptions.Release(r.Pod.UID, r.Sandbox.ID))
		}
	}
	return errors.Join(errs...)
}

// giveBackOne gives a sandbox to Multus, unless nadra has begun its DELs, or has not handed it over
// completely. It keeps one that has ended: the runtime does not call Multus for it any more. The caller's
// operation has the pod's lock.
func (a *adopter) giveBackOne(ctx context.Context, s multusstate.Sandbox) error {
	records := checkpoint.Where(a.store.ForPod(s.Pod.UID), checkpoint.InSandbox(s.ID))
	if a.hasPendingDEL(s.ID) || a.hasEnded(s) || len(records) > 0 && !checkpoint.AnyAdopted(records) {
		return nil
	}
	for _, r := range records {
		if !r.Adopted {
			continue
		}
		// Of a sandbox that was handed over, nadra's own entry would be an orphan after Multus' DEL.
		if err := a.attacher.Plugins.Forget(*r.Sandbox, r.Attachment); err != nil {
			return err
		}
	}
	failpoint.Reach(failpoint.BeforeReturn)
	returned, err := a.custody.dir.Return(s.ID)
	failpoint.Reach(failpoint.AfterReturn)
	if returned {
		klog.FromContext(ctx).Info("Gave a sandbox to Multus", "sandbox", s.ID)
	}
	return err
}

// handOverAll makes sandboxes that nadra has attached without a claim the same as adopted ones, so that
// they can be given to Multus. Otherwise both would run DELs at the pod's end: without a file of
// the sandbox, Multus deletes what the pod's annotation names. One that cannot be handed over does not
// stop the others.
func (a *adopter) handOverAll(ctx context.Context) error {
	var errs []error
	for pod, records := range checkpoint.ByPod(a.store.All()) {
		if _, ready := toHandOver(records); ready {
			errs = append(errs, a.operations.Do(operations.WithPod(ctx, pod), changesHands(pod, ""), func(ctx context.Context) error { return a.handOver(ctx, pod) }))
		}
	}
	return errors.Join(errs...)
}

// toHandOver returns the records of a pod's attachments that can be handed over to Multus, and reports
// whether that can be done now. It leaves pods alone that have a claim, which a rollback evicts, or
// that are being attached or detached.
func toHandOver(records []checkpoint.Record) (attached []checkpoint.Record, ready bool) {
	for _, r := range records {
		switch {
		case !r.ByAnnotation() || r.Sandbox.ID != records[0].Sandbox.ID:
			return nil, false
		case r.Removed && !r.NeedsDEL(): // an edit has removed it
		case r.Phase != checkpoint.Attached || !r.StatusStored:
			return nil, false
		default:
			attached = append(attached, r)
		}
	}
	return attached, len(attached) > 0
}

// handOver writes what Multus keeps of a sandbox, beside the sandboxes that nadra has taken, and then
// marks the pod's records. Until that is done, the sandbox is not given to Multus, and nadra runs its
// DELs. It does nothing on a node on which Multus has never been. The caller's operation has the pod's lock.
func (a *adopter) handOver(ctx context.Context, pod attachment.PodRef) error {
	records, ready := toHandOver(a.store.ForPod(pod.UID))
	if !ready {
		return nil
	}
	sandbox := *records[0].Sandbox
	// Multus has a file of a sandbox that it has attached itself, and to which nadra has added networks.
	if a.custody.ofMultus(sandbox.ID) || a.hasPendingDEL(sandbox.ID) || !a.attacher.SandboxAlive(records[0]) {
		return nil
	}
	s := multusstate.Sandbox{ID: sandbox.ID, Pod: pod, NetNS: sandbox.NetNS}
	for _, r := range records {
		s.Attachments = append(s.Attachments, multusstate.Attachment{Attachment: r.Attachment, Result: r.Result})
	}
	written, err := a.custody.dir.HandOver(s)
	if err != nil || !written {
		return err
	}
	if err := a.adoptions.MarkAdopted(checkpoint.Keys(records), a.baseline(pod)); err != nil {
		return fmt.Errorf("handing the networks of pod %s over to Multus: %w", pod, err)
	}
	klog.FromContext(ctx).Info("Handed over a pod's networks to Multus", "sandbox", sandbox.ID, "networks", len(records))
	return nil
}

// forgetEnded removes what is left of taken sandboxes whose attachments are deleted and whose
// namespaces are gone.
func (a *adopter) forgetEnded() error {
	taken, _, err := a.custody.dir.Taken()
	errs := []error{err}
	for _, s := range taken {
		if a.hasPendingDEL(s.ID) || slices.ContainsFunc(a.store.ForPod(s.Pod.UID), checkpoint.InSandbox(s.ID)) {
			continue
		}
		if a.hasEnded(s) {
			errs = append(errs, a.custody.dir.Forget(s.ID))
		}
	}
	return errors.Join(errs...)
}

// hasEnded reports whether the network namespace of a sandbox is gone.
func (a *adopter) hasEnded(s multusstate.Sandbox) bool {
	if s.NetNS == "" {
		return true
	}
	_, err := a.attacher.Netns.Inspect(s.NetNS)
	return errors.Is(err, podns.ErrGone)
}

// hasPendingDEL reports whether a DEL of a sandbox is pending.
func (a *adopter) hasPendingDEL(sandboxID string) bool {
	return slices.ContainsFunc(a.store.PendingDELs(), func(d checkpoint.PendingDEL) bool { return checkpoint.InSandbox(sandboxID)(d.Record) })
}
