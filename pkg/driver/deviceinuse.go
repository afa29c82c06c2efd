package driver

import (
	"cmp"
	"context"
	"iter"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// inUseWait is how long Prepare waits until a device is free: after a forced deletion
	// the scheduler may allocate it again before the kubelet has unprepared it. It is below
	// the kubelet's 45 s. runtimeWait is not counted: both waits do not come together.
	inUseWait = 20 * time.Second
	// inUsePoll is the pause between two checks.
	inUsePoll = 100 * time.Millisecond
)

// share belongs to one claim at a time: a device, or a share of a device that several claims
// have.
type share struct{ driver, pool, device, id string }

// shareOf returns the share of a device of another driver.
func shareOf(d attachment.OtherDriverDevice) share {
	return share{d.Driver, d.Pool, d.Device, d.ShareID}
}

// uses reports whether the network of a record runs on a share of another driver's device, or has it by its pool.
// Networks that share such a device with others hold it, too: until their DEL has succeeded, the interface of a pod
// that should be gone may still send on it.
func uses(r *checkpoint.Record, s share) bool {
	on := r.Attachment.On
	return on != nil && shareOf(*on) == s || r.OfPool != nil && shareOf(*r.OfPool) == s
}

// has reports whether a record's claim has a share: of its device of nadra's, or one that its network uses.
func has(r *checkpoint.Record, s share) bool {
	return s == share{v1alpha1.DriverName, r.Pool, r.Device, r.ShareID} || uses(r, s)
}

// holders are the records and pending DELs that may have a device, as checkpoint.Store.Holders yields them.
type holders = iter.Seq2[*checkpoint.Record, *checkpoint.PendingDEL]

// holderOf returns the record that has a share, or nil, and its pending DEL if there is one, for the pod that has these claims. A
// pending DEL holds a copy of a shared device against its own claim only: the DEL of a tenant may never succeed, and
// others get the copy meanwhile.
func holderOf(s share, holders holders, claims ...*resourceapi.ResourceClaim) (holder *checkpoint.Record, pending *checkpoint.PendingDEL) {
	for r, del := range holders {
		copied := r.Hardware == nil || r.Hardware.ID == ""
		own := func(c *resourceapi.ResourceClaim) bool { return string(c.UID) == r.Claim.UID }
		switch {
		case !has(r, s):
		case del != nil && (uses(r, s) || !copied || slices.ContainsFunc(claims, own)):
			holder, pending = r, del
		case del == nil && (holder == nil || cmp.Or(cmp.Compare(holder.Pod.UID, r.Pod.UID), cmp.Compare(holder.Index, r.Index)) < 0): // always the same one
			holder = r
		}
	}
	return holder, pending
}

// heldError means that a share is not free.
type heldError struct {
	share share
	error
}

// Unwrap returns the reason.
func (e *heldError) Unwrap() error { return e.error }

// heldBy returns why a share is not free, which a record has.
func heldBy(s share, holder *checkpoint.Record, del *checkpoint.PendingDEL) *heldError {
	if del != nil {
		return &heldError{s, reason.Errorf(reason.DeviceInUse, "device %q of pool %q (driver %s) is still in use on this node: the DEL of network %s for pod %s is pending since %s, and is retried: %s",
			s.device, s.pool, s.driver, holder.Attachment.Network, holder.Pod, timestamp(del.Since), del.Cause)}
	}
	return &heldError{s, reason.Errorf(reason.DeviceInUse, "device %q of pool %q (driver %s) is still in use on this node by claim %s for pod %s: it is free when that pod is gone",
		s.device, s.pool, s.driver, holder.Claim, holder.Pod.Name)}
}

// inUse returns an error if another claim still has a device of these claims. The scheduler
// allocates each device once, but after a forced deletion, or while a DEL is pending, sooner than the node is done.
func inUse(claims []*resourceapi.ResourceClaim, holders holders) error {
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue // the planner refuses it
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			s := share{r.Driver, r.Pool, r.Device, string(ptr.Deref(r.ShareID, ""))}
			holder, pending := holderOf(s, holders, claims...)
			if holder == nil || ptr.Deref(r.AdminAccess, false) {
				continue
			}
			// A device that a network has by its pool is in another claim of its pod.
			ours := holder.Claim.UID == string(claim.UID) ||
				holder.OfPool != nil && shareOf(*holder.OfPool) == s && holder.OfPool.Claim == claim.Name && holder.Pod.Namespace == claim.Namespace
			if !ours || !reservedFor(claim, holder.Pod) && holder.NeedsDEL() {
				return heldBy(s, holder, pending)
			}
		}
	}
	return nil
}

// hasOfPool reports whether a network has a device of another driver by its pool.
func hasOfPool(p attachment.Prepared) bool { return p.OfPool != nil }

// poolDeviceInUse returns an error if another pod still has such a device.
func poolDeviceInUse(prepared []attachment.Prepared, holders holders) *heldError {
	for _, p := range prepared {
		if !hasOfPool(p) {
			continue
		}
		s := shareOf(*p.OfPool)
		holder, pending := holderOf(s, holders)
		if holder == nil || holder.Pod.UID == p.Pod.UID {
			continue
		}
		if passed := holder.Claim.UID == p.Claim.UID && !holder.NeedsDEL(); !passed { // with its claim, from another pod
			return heldBy(s, holder, pending)
		}
	}
	return nil
}

// reservedFor reports whether the claim is reserved for the pod.
func reservedFor(claim *resourceapi.ResourceClaim, pod attachment.PodRef) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(c resourceapi.ResourceClaimConsumerReference) bool {
		return string(c.UID) == pod.UID
	})
}

// waitForDevices waits until no other claim has the claims' devices. It has their pending DELs
// retried.
func (p *preparer) waitForDevices(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	check := func() error {
		for _, claim := range claims {
			if err := p.release(ctx, claim); err != nil {
				return err
			}
		}
		return inUse(claims, p.store.Holders)
	}
	err := check()
	if err == nil {
		return nil
	}
	p.sweeps.Set() // a sandbox that is gone may still have it
	p.attacher.PendingDELs.Hasten(func(r checkpoint.Record) bool {
		return inUse(claims, func(yield func(*checkpoint.Record, *checkpoint.PendingDEL) bool) { yield(&r, nil) }) != nil
	})
	_ = wait.PollUntilContextTimeout(ctx, inUsePoll, inUseWait, false, func(context.Context) (bool, error) {
		err = check()
		return err == nil, nil
	})
	return err
}
