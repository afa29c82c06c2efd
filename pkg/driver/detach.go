package driver

import (
	"context"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

// detacher runs the DELs of sandboxes and claims. They have their own time: if the caller's
// ctx ends first they continue, and the next caller waits for them.
type detacher struct {
	store      *checkpoint.Store
	attacher   *attach.Attacher
	locks      *podLocks
	operations *background.Group
	inFlight   inFlight
}

// detachSandbox begins to detach one sandbox, and returns a channel that receives the result. The
// caller need not wait: the sandbox's network namespace exists until the DELs have ended.
func (d *detacher) detachSandbox(s attachment.Sandbox) <-chan error {
	done := make(chan error, 1)
	kept := d.attacher.Keep(s.Pod.UID, s.ID)
	d.operations.Go(func(ctx context.Context) {
		defer kept.Close()
		done <- d.runSandbox(ctx, s, kept)
	})
	return done
}

// runSandbox runs the DELs of one sandbox. Unprepare retries those that fail, and the sweep those
// of attachments without a claim.
func (d *detacher) runSandbox(ctx context.Context, s attachment.Sandbox, kept attach.Kept) error {
	limit := d.attacher.Limits.Detaching(d.store.ForPod(s.Pod.UID))
	defer d.inFlight.begin(limit)()
	ctx, cancel := context.WithTimeoutCause(podlog.WithPod(ctx, s.Pod), limit, reason.Errorf(reason.DELUnfinished, "the time for detaching is over"))
	defer cancel()
	unlock, err := d.locks.lock(ctx, s.Pod.UID)
	if err == nil {
		defer unlock()
		err = d.attacher.DetachKept(ctx, s.Pod.UID, checkpoint.InSandbox(s.ID), kept)
	}
	if err == nil {
		err = forgetUnclaimed(d.store, s.Pod, checkpoint.InSandbox(s.ID))
	}
	if err != nil {
		return reason.Errorf(reason.DELUnfinished, "detaching pod %s/%s (retried when its claims are unprepared): %w", s.Pod.Namespace, s.Pod.Name, err)
	}
	return nil
}

// forgetUnclaimed deletes the records that a pod has without a claim, if all of them are over and
// need no DEL. No container is created in a sandbox that was stopped, so none starts without
// them. The caller holds the pod's lock.
func forgetUnclaimed(store *checkpoint.Store, pod attachment.PodRef, over func(checkpoint.Record) bool) error {
	if slices.ContainsFunc(store.ForClaim(pod.UID), func(r checkpoint.Record) bool { return r.NeedsDEL() || !over(r) }) {
		return nil
	}
	return store.DeleteClaim(pod.UID)
}

// detachClaim detaches what is attached for one claim, and deletes the claim's records.
func (d *detacher) detachClaim(ctx context.Context, pod attachment.PodRef, uid string) error {
	done := make(chan error, 1)
	d.operations.Go(func(ctx context.Context) { done <- d.runClaim(ctx, pod, uid) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return reason.Errorf(reason.DELUnfinished, "waiting for its DELs, which continue: %w", context.Cause(ctx))
	}
}

// runClaim runs the DELs of a claim and deletes its records while no other operation on its
// pod runs.
func (d *detacher) runClaim(ctx context.Context, pod attachment.PodRef, uid string) error {
	limit := d.attacher.Limits.Detaching(d.store.ForClaim(uid))
	defer d.inFlight.begin(limit)()
	ctx, cancel := context.WithTimeoutCause(podlog.WithPod(ctx, pod), limit, reason.Errorf(reason.DELUnfinished, "the time for detaching a claim is over"))
	defer cancel()
	unlock, err := d.locks.lock(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	return d.attacher.DetachClaim(ctx, uid)
}
