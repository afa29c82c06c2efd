package driver

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// claimRecords writes and removes what is on disk for claims.
type claimRecords struct {
	store *checkpoint.Store
	cdi   *cdi.Writer
}

// forget removes the records and the gate of one claim. It may be repeated.
func (c claimRecords) forget(uid string) error {
	if err := c.store.DeleteClaim(uid); err != nil {
		return err
	}
	return c.cdi.Remove(uid)
}

// preparer prepares the claims of pods.
type preparer struct {
	claimRecords
	driverName string
	operations *operations.Group
	unprepared *unpreparedClaims
	planner    *planner
	// sweep requests a sweep, and hastenDELs another try of the pending DELs that match.
	sweep      func()
	hastenDELs func(match func(checkpoint.Record) bool)
	// checkContainers refuses a pod with a container that no gate would hold.
	checkContainers func(ctx context.Context, claims []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error
}

// prepare records the attachments of all claims of one pod, or of none. Then it returns an
// error for each claim. Claims that are recorded already keep their records.
func (p *preparer) prepare(ctx context.Context, claims []*resourceapi.ResourceClaim) map[types.UID]error {
	unlock, err := p.lock(ctx, claims)
	if err != nil {
		return errorForAll(claims, err)
	}
	defer unlock()
	fresh, err := p.forgetPartial(claims)
	if err != nil {
		return errorForAll(claims, err)
	}
	prepared, failed := p.planner.plan(ctx, fresh)
	if len(failed) > 0 {
		return failed
	}
	if err := p.checkContainers(ctx, claims, prepared); err != nil {
		return errorForAll(claims, err)
	}
	if err := p.record(claims, prepared); err != nil {
		for _, claim := range fresh {
			err = errors.Join(err, p.forget(string(claim.UID)))
		}
		return errorForAll(claims, err)
	}
	return nil
}

// lock takes the lock of the claims' pod once their devices are free. It refuses a call that
// the kubelet no longer waits for, and whose claims it may have unprepared meanwhile.
func (p *preparer) lock(ctx context.Context, claims []*resourceapi.ResourceClaim) (unlock func(), err error) {
	if err := p.waitForDevices(ctx, claims); err != nil {
		return nil, err
	}
	var pod attachment.PodRef
	for _, claim := range claims { // the planner refuses a claim for no pod, or for several
		if ref, err := podOf(claim); err == nil {
			pod = ref
		}
	}
	unlock, err = p.operations.Lock(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		if p.unprepared.has(string(claim.UID), pod.UID, time.Now()) {
			err = reason.Errorf(reason.ClaimUnprepared, "claim %s/%s was unprepared for this pod already", claim.Namespace, claim.Name)
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
// of claims that were recorded before, because their files may have been lost.
func (p *preparer) record(claims []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error {
	for _, ofClaim := range prepared {
		if err := p.store.Put(ofClaim); err != nil {
			return reason.Wrap(reason.StateNotWritten, err)
		}
	}
	var ofPod []checkpoint.Record
	for _, claim := range claims {
		ofPod = append(ofPod, p.store.ForClaim(string(claim.UID))...)
	}
	for _, uid := range checkpoint.ClaimUIDs(ofPod) {
		if err := p.cdi.Write(uid, ofPod); err != nil {
			return reason.Wrap(reason.StateNotWritten, err)
		}
	}
	return nil
}

// forgetPartial returns the claims that are to be planned: all or none, because interface
// names are unique in the whole pod. If some claims are recorded and others are not, the
// driver was killed within a Prepare that was never answered. Then nothing was attached, and
// it plans all claims again.
func (p *preparer) forgetPartial(claims []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, error) {
	recorded := 0
	for _, claim := range claims {
		if len(p.store.ForClaim(string(claim.UID))) > 0 {
			recorded++
		}
	}
	if recorded == len(claims) {
		return nil, nil
	}
	for _, claim := range claims {
		if slices.ContainsFunc(p.store.ForClaim(string(claim.UID)), checkpoint.Record.NeedsDEL) {
			return nil, reason.Errorf(reason.ClaimIncomplete, "claim %s/%s is attached already while another claim of its pod is new: delete the pod", claim.Namespace, claim.Name)
		}
	}
	for _, claim := range claims {
		if err := p.forget(string(claim.UID)); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// errorForAll returns an error for each claim.
func errorForAll(claims []*resourceapi.ResourceClaim, err error) map[types.UID]error {
	failed := map[types.UID]error{}
	for _, claim := range claims {
		failed[claim.UID] = fmt.Errorf("preparing claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return failed
}
