package driver

import (
	"context"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// detacher runs the DELs of sandboxes and claims. They have their own time: if the caller's
// ctx ends first they continue, and the next caller waits for them.
type detacher struct {
	store      *checkpoint.Store
	attacher   *attach.Attacher
	operations *operations.Group
}

// operation describes the DELs of some records of a pod.
func (d *detacher) operation(pod attachment.PodRef, records []checkpoint.Record) operations.Operation {
	return operations.Operation{
		Pod: pod, Limit: d.attacher.Limits.Detaching(records), Over: reason.Errorf(reason.DELUnfinished, "the time for detaching is over"), Detaching: true,
	}
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
	err := d.operations.Do(operations.WithPod(ctx, s.Pod), d.operation(s.Pod, d.store.ForPod(s.Pod.UID)), func(ctx context.Context) error {
		if err := d.attacher.DetachSandbox(ctx, s.Pod.UID, s.ID, kept); err != nil {
			return err
		}
		return forgetUnclaimed(d.store, s.Pod, checkpoint.InSandbox(s.ID))
	})
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
	return store.DeleteClaim(pod.UID, pod.UID)
}
