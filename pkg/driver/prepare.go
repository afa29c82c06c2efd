package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// preparer prepares and unprepares the claims of pods.
type preparer struct {
	*pods
	jobs       *attachJobs
	unprepared unpreparedClaims
	refused    firstTimes // by claim UID
}

// prepare records the attachments of all claims of one pod, or of none. Then it returns an
// error for each claim. Claims that are recorded for the pod already keep their records.
func (p *preparer) prepare(ctx context.Context, asked []*resourceapi.ResourceClaim) map[types.UID]error {
	all, err := p.withRecorded(ctx, podOfAny(asked), asked)
	if err != nil {
		return errorForAll(asked, err)
	}
	return p.prepareAll(ctx, asked, all)
}

// prepareMoved does the same for all claims of a pod to which claims have passed, and reports on the pod why it cannot.
func (p *preparer) prepareMoved(ctx context.Context, pod attachment.PodRef) error {
	claims, err := p.withRecorded(ctx, pod, nil)
	failed := map[types.UID]error{}
	for _, claim := range claims {
		if _, err := podOf(claim); err != nil { // the first pod may still have it
			failed[claim.UID] = preparing(claim, err)
		}
	}
	if err == nil && len(failed) == 0 {
		failed = p.prepareAll(ctx, nil, claims)
	}
	if err == nil {
		err = firstError(claims, failed)
	}
	if err != nil {
		p.events.Pod(pod, corev1.EventTypeWarning, reason.EventFailedPrepareNetwork, err.Error())
	}
	return err
}

// prepareAll does so for all claims of a pod. asked are those for which the kubelet gets an answer.
func (p *preparer) prepareAll(ctx context.Context, asked, claims []*resourceapi.ResourceClaim) map[types.UID]error {
	unlock, err := p.lock(ctx, claims)
	if err != nil {
		return errorForAll(claims, err)
	}
	defer unlock()
	plan, err := p.toPlan(asked, claims)
	if err != nil {
		return errorForAll(claims, err)
	}
	prepared, failed := p.planner.plan(ctx, plan)
	if len(failed) > 0 {
		return failed
	}
	if err := errors.Join(p.checkContainers(ctx, claims, prepared), p.keepsDevices(asked, prepared)); err != nil {
		return errorForAll(claims, err)
	}
	if err := p.take(claims, plan, prepared); err != nil {
		return errorForAll(claims, err)
	}
	return nil
}

// take records what a pod gets, or nothing of it. It refuses a device that another pod still has.
func (p *preparer) take(claims, plan []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error {
	all := slices.Concat(prepared...)
	if slices.ContainsFunc(all, func(one attachment.Prepared) bool { return hasOfPool(one) || deviceOfPlan(one) != "" }) {
		p.taking.Lock()
		defer p.taking.Unlock()
		if held := poolDeviceInUse(all, p.store.Holders); held != nil { // the kubelet asks again
			p.sweeps.Set()
			p.attacher.PendingDELs.Hasten(func(r checkpoint.Record) bool { return has(&r, held.share) })
			return held
		}
		if err := deviceHeld(all, p.store.Holders); err != nil {
			return err
		}
	}
	fresh := slices.DeleteFunc(slices.Clone(plan), func(c *resourceapi.ResourceClaim) bool { return len(p.store.ForClaim(string(c.UID))) > 0 })
	err := p.record(claims, prepared)
	if err != nil {
		for _, claim := range fresh {
			err = errors.Join(err, p.forget(string(claim.UID), podOfAny(claims).UID))
		}
	}
	return err
}

// forget removes the records and the gate of one claim, unless the records are another pod's. It may be repeated.
func (p *preparer) forget(uid, podUID string) error {
	if err := p.store.DeleteClaim(uid, podUID); err != nil || len(p.store.ForClaim(uid)) > 0 {
		return err
	}
	return p.cdi.Remove(uid)
}

// podOfAny returns the pod that claims are reserved for. The planner refuses a claim for no pod, or for several.
func podOfAny(claims []*resourceapi.ResourceClaim) (pod attachment.PodRef) {
	for _, claim := range claims {
		if ref, err := podOf(claim); err == nil {
			pod = ref
		}
	}
	return pod
}

// keepsDevices returns an error if a claim for which the kubelet gets no answer would have other CDI devices than
// the kubelet knows.
func (p *preparer) keepsDevices(asked []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error {
	for _, ofClaim := range prepared {
		claim := ofClaim[0].Claim
		if slices.ContainsFunc(asked, func(c *resourceapi.ResourceClaim) bool { return string(c.UID) == claim.UID }) {
			continue
		}
		for _, r := range p.store.ForClaim(claim.UID) {
			if !slices.ContainsFunc(ofClaim, func(now attachment.Prepared) bool { return now.Request == r.Request && now.Index == r.Index }) {
				return reason.Errorf(reason.ClaimIncomplete, "claim %s was prepared for pod %s as its network %d, which is another in pod %s: delete the pod, so that the claim is prepared for the next one",
					claim, r.Pod.Name, r.Index+1, ofClaim[0].Pod.Name)
			}
		}
	}
	return nil
}

// lock takes the lock of the claims' pod once their devices are free. It refuses a call that
// the kubelet no longer waits for, and whose claims it may have unprepared meanwhile.
func (p *preparer) lock(ctx context.Context, claims []*resourceapi.ResourceClaim) (unlock func(), err error) {
	if err := p.waitForDevices(ctx, claims); err != nil {
		return nil, err
	}
	pod := podOfAny(claims)
	unlock, err = p.operations.Lock(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		if p.unprepared.has(string(claim.UID), pod.UID, time.Now()) {
			err = reason.Errorf(reason.ClaimUnprepared, "claim %s was unprepared for this pod already", refOf(claim))
		}
	}
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err != nil {
		unlock()
		return nil, err
	}
	return unlock, nil
}

// record writes the records, and then the gates that refer to them. It also writes the gates
// of claims that were recorded before, because their files may have been lost, and device files may have other numbers
// since a reboot.
func (p *preparer) record(claims []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error {
	for _, ofClaim := range prepared {
		if err := p.store.Put(ofClaim); err != nil {
			return reason.Wrap(reason.StateNotWritten, err)
		}
	}
	var ofPod []checkpoint.Record
	for _, claim := range claims {
		if err := p.planner.rereadDevices(string(claim.UID)); err != nil {
			return err
		}
		ofPod = append(ofPod, p.store.ForClaim(string(claim.UID))...)
	}
	for _, uid := range checkpoint.ClaimUIDs(ofPod) {
		if err := p.cdi.Write(uid, ofPod); err != nil {
			return reason.Wrap(reason.StateNotWritten, err)
		}
	}
	return nil
}

// toPlan returns the claims that are to be planned: all or none, because interface
// names are unique in the whole pod. If some claims are recorded for the pod and others are not, the
// driver was killed within a Prepare that was never answered, or claims have passed to the pod. Then nothing
// was attached, and it plans all claims again. The kubelet has no devices of those that it has asked for.
func (p *preparer) toPlan(asked, claims []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, error) {
	recorded := 0
	for _, claim := range claims {
		if records := p.store.ForClaim(string(claim.UID)); len(records) > 0 && !passes(claim, records) {
			recorded++
		}
	}
	if recorded == len(claims) {
		return nil, nil
	}
	for _, claim := range claims {
		if slices.ContainsFunc(p.store.ForClaim(string(claim.UID)), checkpoint.Record.NeedsDEL) {
			return nil, reason.Errorf(reason.ClaimIncomplete, "claim %s is attached already while another claim of its pod is new: delete the pod", refOf(claim))
		}
	}
	for _, claim := range asked {
		if err := p.forget(string(claim.UID), podOfAny(claims).UID); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// passes reports whether a claim with these records is reserved for another pod than they are of.
func passes(claim *resourceapi.ResourceClaim, records []checkpoint.Record) bool {
	pod, err := podOf(claim)
	return err == nil && len(records) > 0 && records[0].Pod.UID != pod.UID
}

// errorForAll returns an error for each claim.
func errorForAll(claims []*resourceapi.ResourceClaim, err error) map[types.UID]error {
	failed := map[types.UID]error{}
	for _, claim := range claims {
		failed[claim.UID] = preparing(claim, err)
	}
	return failed
}

// preparing returns the error of a claim that cannot be prepared.
func preparing(claim *resourceapi.ResourceClaim, err error) error {
	return fmt.Errorf("preparing claim %s: %w", refOf(claim), err)
}
