package driver

import (
	"context"
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

// sharesOf returns what a record's claim has: its device of nadra's, and the one of another driver on which the
// network runs, or that it has by its pool. Networks that share such a device with others hold it, too: until their
// DEL has succeeded, the interface of a pod that should be gone may still send on it.
func sharesOf(r checkpoint.Record) []share {
	out := []share{{v1alpha1.DriverName, r.Pool, r.Device, r.ShareID}}
	for _, d := range []*attachment.OtherDriverDevice{r.Attachment.On, r.OfPool} {
		if d != nil {
			out = append(out, shareOf(*d))
		}
	}
	return out
}

// holders has the records that have shares, and the pending DELs among them.
type holders struct {
	records map[share]checkpoint.Record
	pending map[share]checkpoint.PendingDEL
}

// holdersOf returns what holds shares, for pods with these claims. A pending DEL holds a copy of a shared device against
// its own claim only: the DEL of a tenant may never succeed, and others get the copy meanwhile.
func holdersOf(records []checkpoint.Record, dels []checkpoint.PendingDEL, claims ...*resourceapi.ResourceClaim) holders {
	h := holders{map[share]checkpoint.Record{}, map[share]checkpoint.PendingDEL{}}
	for _, r := range records {
		for _, s := range sharesOf(r) {
			h.records[s] = r
		}
	}
	for _, d := range dels {
		shares, own := sharesOf(d.Record), func(c *resourceapi.ResourceClaim) bool { return string(c.UID) == d.Record.Claim.UID }
		if copied := d.Record.Hardware == nil || d.Record.Hardware.ID == ""; copied && !slices.ContainsFunc(claims, own) {
			shares = shares[1:]
		}
		for _, s := range shares {
			h.records[s], h.pending[s] = d.Record, d
		}
	}
	return h
}

// heldError means that a share is not free.
type heldError struct {
	share share
	error
}

// Unwrap returns the reason.
func (e *heldError) Unwrap() error { return e.error }

// error returns why a share is not free, which a record has.
func (h holders) error(s share) *heldError {
	holder := h.records[s]
	if del, is := h.pending[s]; is {
		return &heldError{s, reason.Errorf(reason.DeviceInUse, "device %q of pool %q (driver %s) is still in use on this node: the DEL of network %s for pod %s is pending since %s, and is retried: %s",
			s.device, s.pool, s.driver, holder.Attachment.Network, holder.Pod, timestamp(del.Since), del.Cause)}
	}
	return &heldError{s, reason.Errorf(reason.DeviceInUse, "device %q of pool %q (driver %s) is still in use on this node by claim %s for pod %s: it is free when that pod is gone",
		s.device, s.pool, s.driver, holder.Claim, holder.Pod.Name)}
}

// inUse returns an error if another claim still has a device of these claims. The scheduler
// allocates each device once, but after a forced deletion, or while a DEL is pending, sooner than the node is done.
func inUse(claims []*resourceapi.ResourceClaim, records []checkpoint.Record, dels []checkpoint.PendingDEL) error {
	held := holdersOf(records, dels, claims...)
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue // the planner refuses it
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			s := share{r.Driver, r.Pool, r.Device, string(ptr.Deref(r.ShareID, ""))}
			holder, found := held.records[s]
			// A device that a network has by its pool is in another claim of its pod.
			ours := holder.Claim.UID == string(claim.UID) ||
				holder.OfPool != nil && shareOf(*holder.OfPool) == s && holder.OfPool.Claim == claim.Name && holder.Pod.Namespace == claim.Namespace
			if !found || ptr.Deref(r.AdminAccess, false) || ours && (reservedFor(claim, holder.Pod) || !holder.NeedsDEL()) {
				continue
			}
			return held.error(s)
		}
	}
	return nil
}

// hasOfPool reports whether a network has a device of another driver by its pool.
func hasOfPool(p attachment.Prepared) bool { return p.OfPool != nil }

// poolDeviceInUse returns an error if another pod still has such a device.
func poolDeviceInUse(prepared []attachment.Prepared, records []checkpoint.Record, dels []checkpoint.PendingDEL) *heldError {
	held := holdersOf(records, dels)
	for _, p := range prepared {
		if !hasOfPool(p) {
			continue
		}
		holder, found := held.records[shareOf(*p.OfPool)]
		passed := holder.Claim.UID == p.Claim.UID && !holder.NeedsDEL() // with its claim, from another pod
		if found && holder.Pod.UID != p.Pod.UID && !passed {
			return held.error(shareOf(*p.OfPool))
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
		return inUse(claims, p.store.All(), p.store.PendingDELs())
	}
	err := check()
	if err == nil {
		return nil
	}
	p.sweeps.Set() // a sandbox that is gone may still have it
	p.attacher.PendingDELs.Hasten(func(r checkpoint.Record) bool {
		return inUse(claims, []checkpoint.Record{r}, nil) != nil
	})
	_ = wait.PollUntilContextTimeout(ctx, inUsePoll, inUseWait, false, func(context.Context) (bool, error) {
		err = check()
		return err == nil, nil
	})
	return err
}
