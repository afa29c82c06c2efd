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

// detaching describes the DELs of some records of a pod. They have their own time: if the caller's ctx ends first they
// continue, and the next caller waits for them.
func (p *pods) detaching(pod attachment.PodRef, records []checkpoint.Record) operations.Operation {
	return operations.Operation{
		Pod: pod, Limit: p.attacher.Limits.Detaching(records), Over: reason.Errorf(reason.DELUnfinished, "the time for detaching is over"), Detaching: true,
	}
}

// detachSandbox begins to detach one sandbox, and returns a channel that receives the result. The
// caller need not wait: the sandbox's network namespace exists until the DELs have ended.
func (p *pods) detachSandbox(s attachment.Sandbox) <-chan error {
	done := make(chan error, 1)
	kept := p.attacher.Keep(s.Pod.UID, s.ID)
	p.operations.Go(func(ctx context.Context) {
		defer kept.Close()
		done <- p.runDELs(ctx, s, kept)
	})
	return done
}

// runDELs runs the DELs of one sandbox. Unprepare retries those that fail, and the sweep those
// of attachments without a claim.
func (p *pods) runDELs(ctx context.Context, s attachment.Sandbox, kept attach.Kept) error {
	err := p.operations.Do(operations.WithPod(ctx, s.Pod), p.detaching(s.Pod, p.store.ForPod(s.Pod.UID)), func(ctx context.Context) error {
		if err := p.attacher.DetachSandbox(ctx, s.Pod.UID, s.ID, kept); err != nil {
			return err
		}
		return p.forgetUnclaimed(s.Pod, checkpoint.InSandbox(s.ID))
	})
	if err != nil {
		return reason.Errorf(reason.DELUnfinished, "detaching pod %s (retried when its claims are unprepared): %w", s.Pod, err)
	}
	return nil
}

// forgetUnclaimed deletes the records that a pod has without a claim, if all of them are over and
// need no DEL. No container is created in a sandbox that was stopped, so none starts without
// them. The caller holds the pod's lock.
func (p *pods) forgetUnclaimed(pod attachment.PodRef, over func(checkpoint.Record) bool) error {
	if slices.ContainsFunc(p.store.ForClaim(pod.UID), func(r checkpoint.Record) bool { return r.NeedsDEL() || !over(r) }) {
		return nil
	}
	return p.store.DeleteClaim(pod.UID, pod.UID)
}
