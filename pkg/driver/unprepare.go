package driver

import (
	"context"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
)

// refuseRunning is how long Unprepare refuses while the pod's sandbox exists.
const refuseRunning = 5 * time.Minute

// unpreparer unprepares the claims of pods.
type unpreparer struct {
	claimRecords
	attacher    *attach.Attacher
	jobs        *attachJobs
	detacher    *detacher
	unprepared  *unpreparedClaims
	claimStatus *claimstatus.Writer
	refused     firstTimes // by claim UID
}

// unprepare detaches what is attached for one claim, and removes the claim's records.
func (u *unpreparer) unprepare(ctx context.Context, uid string) error {
	records := u.store.ForClaim(uid)
	if len(records) == 0 {
		return u.forget(uid) // what an earlier call could not remove
	}
	pod, claim := records[0].Pod, records[0].Claim
	err := u.stillRuns(records, time.Now())
	if err == nil {
		u.unprepared.add(uid, pod.UID, time.Now())
		u.jobs.cancel(pod.UID, "", errUnprepared)
		err = u.detacher.detachClaim(ctx, pod, uid)
	}
	if err != nil {
		return fmt.Errorf("unpreparing claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	u.claimStatus.Forget(claim)
	return u.forget(uid)
}

// stillRuns returns an error while the sandbox of a claim has its network namespace. The
// kubelet unprepares after it has stopped the sandbox, but its loop over claims of pods that
// are gone does not wait for their containers (a forced deletion is enough): they would lose
// their networks while they run. The loop comes again. If a namespace outlives its sandbox,
// this gives up after refuseRunning.
func (u *unpreparer) stillRuns(records []checkpoint.Record, now time.Time) error {
	for _, r := range records {
		if !r.NeedsDEL() && !r.DeviceOnly || !u.attacher.SandboxAlive(r) {
			continue
		}
		if since := u.refused.since(r.Claim.UID, now); now.Sub(since) < refuseRunning {
			return reason.Errorf(reason.DELUnfinished, "the pod's sandbox %.12s still has its network namespace: it is detached when it was stopped", r.Sandbox.ID)
		}
	}
	return nil
}
