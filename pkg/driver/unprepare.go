package driver

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// refuseRunning is how long Unprepare refuses while the pod's sandbox exists.
const refuseRunning = 5 * time.Minute

// unprepare detaches what is attached for one claim, and removes the claim's records.
func (p *preparer) unprepare(ctx context.Context, uid string) error {
	records := p.store.ForClaim(uid)
	if len(records) == 0 {
		return p.forget(uid, "") // what an earlier call could not remove
	}
	err := p.stillRuns(records, time.Now())
	if err == nil {
		err = p.detach(ctx, records, func(ctx context.Context) error {
			if err := p.attacher.DetachClaim(ctx, records[0].Pod.UID, uid); err != nil {
				return err
			}
			p.claimStatus.Forget(records[0].Claim)
			return p.forget(uid, records[0].Pod.UID)
		})
	}
	if err != nil {
		return fmt.Errorf("unpreparing claim %s: %w", records[0].Claim, err)
	}
	return nil
}

// detach ends the attaching of a claim with these records, and then calls run, which detaches it, as an operation on
// the pod.
func (p *preparer) detach(ctx context.Context, records []checkpoint.Record, run func(context.Context) error) error {
	pod := records[0].Pod
	p.unprepared.add(records[0].Claim.UID, pod.UID, time.Now())
	p.jobs.cancel(pod.UID, "", errUnprepared)
	return p.operations.Run(ctx, p.detaching(pod, records), run)
}

// release detaches a claim that has passed to another pod. Its records stay, because the kubelet has their
// devices. It refuses while the pod's sandbox has its network namespace.
func (p *preparer) release(ctx context.Context, claim *resourceapi.ResourceClaim) error {
	records := p.store.ForClaim(string(claim.UID))
	if !passes(claim, records) {
		return nil
	}
	for _, r := range records {
		if p.heldBySandbox(r) {
			return reason.Errorf(reason.DeviceInUse, "claim %s is still attached in pod %s, whose sandbox %.12s runs on this node: it is attached here when that one has ended",
				r.Claim, r.Pod, r.Sandbox.ID)
		}
	}
	if !slices.ContainsFunc(records, checkpoint.Record.NeedsDEL) {
		return nil
	}
	return p.detach(ctx, records, func(ctx context.Context) error {
		return p.attacher.Detach(ctx, records[0].Pod.UID, func(r checkpoint.Record) bool { return r.FileUID() == string(claim.UID) })
	})
}

// heldBySandbox reports whether a sandbox has what is recorded: it has its network namespace, or, in the host's
// network, the runtime has not reported its end, or is not connected.
func (p *preparer) heldBySandbox(r checkpoint.Record) bool {
	if r.DeviceOnly && r.Sandbox != nil && r.Sandbox.NetNS == "" {
		s, found := p.sandboxes.of(r.Pod.UID)
		return found && s.ID == r.Sandbox.ID || !p.runtime.state().up && r.BootID == p.store.BootID()
	}
	return (r.NeedsDEL() || r.DeviceOnly) && p.attacher.SandboxAlive(r)
}

// stillRuns returns an error while the sandbox of a claim has its network namespace. The
// kubelet unprepares after it has stopped the sandbox, but its loop over claims of pods that
// are gone does not wait for their containers (a forced deletion is enough): they would lose
// their networks while they run. The loop comes again. If a namespace outlives its sandbox,
// this gives up after refuseRunning, unless the pod is there: the call is late, and was meant for the pod before it.
func (p *preparer) stillRuns(records []checkpoint.Record, now time.Time) error {
	for _, r := range records {
		if !p.heldBySandbox(r) {
			continue
		}
		ended := p.watch.ends(r.Pod) || r.DeviceOnly && r.Sandbox.NetNS == "" && !p.runtime.state().up // nobody reports its end
		if since := p.refused.since(r.Claim.UID, now); now.Sub(since) < refuseRunning || !ended {
			return reason.Errorf(reason.DELUnfinished, "the pod's sandbox %.12s still runs: it is detached when it was stopped", r.Sandbox.ID)
		}
	}
	return nil
}

// unpreparedLife is how long the driver remembers that a claim was unprepared. A call of
// Prepare that the kubelet no longer waits for lives 45 s at most.
const unpreparedLife = 5 * time.Minute

// unpreparedClaims remembers which claims were unprepared for which pod, so that a Prepare
// that was overtaken does not record them again: nobody would unprepare them then. A claim
// is prepared as usual for its next pod. Nothing is on disk, because a call does not outlive
// the process.
type unpreparedClaims struct {
	mu    sync.Mutex
	times map[unpreparedClaim]time.Time
}

type unpreparedClaim struct{ claimUID, podUID string }

// add remembers a claim, and forgets claims after unpreparedLife.
func (u *unpreparedClaims) add(claimUID, podUID string, now time.Time) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for k, at := range u.times {
		if now.Sub(at) > unpreparedLife {
			delete(u.times, k)
		}
	}
	if u.times == nil {
		u.times = map[unpreparedClaim]time.Time{}
	}
	u.times[unpreparedClaim{claimUID, podUID}] = now
}

// has reports whether a claim was unprepared for a pod.
func (u *unpreparedClaims) has(claimUID, podUID string, now time.Time) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	at, found := u.times[unpreparedClaim{claimUID, podUID}]
	return found && now.Sub(at) <= unpreparedLife
}

// forgetAfter is the time after which something that was not seen again counts as new.
const forgetAfter = 10 * time.Minute

// firstTimes remembers when something was first seen, for as long as it is seen repeatedly.
// The zero value is empty.
type firstTimes struct {
	mu    sync.Mutex
	times map[string]seen
}

type seen struct{ first, last time.Time }

// since records that key is seen now, and returns when it was seen first.
func (f *firstTimes) since(key string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.times == nil {
		f.times = map[string]seen{}
	}
	for k, s := range f.times {
		if now.Sub(s.last) > forgetAfter {
			delete(f.times, k)
		}
	}
	s, found := f.times[key]
	if !found {
		s.first = now
	}
	s.last = now
	f.times[key] = s
	return s.first
}
