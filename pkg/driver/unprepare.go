package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
)

// runsOnLimit is how long Unprepare refuses for a sandbox that is there.
const runsOnLimit = 5 * time.Minute

// unprepare ends what is attached for one claim and forgets it.
func (d *Driver) unprepare(ctx context.Context, uid string) error {
	records := d.store.ForClaim(uid)
	if len(records) == 0 {
		return d.forget(uid) // what an earlier call could not remove
	}
	pod, claim := records[0].Pod, records[0].Claim
	err := d.stillRuns(records, time.Now())
	if err == nil {
		d.buried.bury(uid, pod.UID, time.Now())
		d.jobs.forget(pod.UID, "", errUnprepared)
		err = d.release(ctx, pod, uid)
	}
	if err != nil {
		return fmt.Errorf("unpreparing claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	d.claimStatus.Forget(claim)
	return d.forget(uid)
}

// release runs the DELs that a claim owes. They have their own time: when ctx
// ends first they go on, and whoever asks again waits for them.
func (d *Driver) release(ctx context.Context, pod attachment.PodRef, uid string) error {
	done := make(chan error, 1)
	d.jobs.group.Go(func() { done <- d.releaseClaim(pod, uid) })
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return reason.Errorf(reason.DELUnfinished, "waiting for its DELs, which go on: %w", context.Cause(ctx))
	}
}

// releaseClaim runs the DELs that a claim owes, and forgets it, while no other
// operation on its pod runs.
func (d *Driver) releaseClaim(pod attachment.PodRef, uid string) error {
	limit := d.attacher.Limits.Detaching(d.store.ForClaim(uid))
	defer d.detaches.begin(limit)()
	ctx, cancel := context.WithTimeoutCause(podlog.WithPod(d.jobs.base, pod), limit, reason.Errorf(reason.DELUnfinished, "the time for releasing a claim is over"))
	defer cancel()
	unlock, err := d.pods.lock(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	return d.attacher.Release(ctx, uid)
}

// stillRuns returns an error while the sandbox of a claim has its network
// namespace. The kubelet unprepares after it has stopped the sandbox, but the
// loop with which it looks for claims of pods that are gone does not wait for
// their containers (a forced deletion is enough): they would lose their
// networks while they run. The loop comes again. Should a namespace outlive its
// sandbox, this gives way after a while.
func (d *Driver) stillRuns(records []checkpoint.Record, now time.Time) error {
	for _, r := range records {
		if !r.NeedsDEL() && !r.DeviceOnly || !d.attacher.SandboxAlive(r) {
			continue
		}
		if since := d.refused.since(r.Claim.UID, now); now.Sub(since) < runsOnLimit {
			return reason.Errorf(reason.DELUnfinished, "the pod's sandbox %.12s still has its network namespace: it is detached when it was stopped", r.Sandbox.ID)
		}
	}
	return nil
}
