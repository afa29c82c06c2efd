package driver

import (
	"context"
	"slices"
	"time"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// releaseWait is how long Prepare waits for another claim to let go of a
	// device: after a forced deletion the scheduler may give it away before
	// the kubelet has unprepared it. Below the kubelet's 45 s, runtimeWait not
	// counted: the two do not come together.
	releaseWait = 20 * time.Second
	// releasePoll is the interval at which it looks.
	releasePoll = 100 * time.Millisecond
)

// share is what belongs to one claim at a time: a device, or a share of one
// that several may have.
type share struct{ pool, device, id string }

// inUse returns an error when a device of these claims is still another
// claim's: the scheduler gives each out once, but forgets a forced deletion
// sooner than the node does.
func inUse(claims []*resourceapi.ResourceClaim, driver string, records []checkpoint.Record, dels []checkpoint.PendingDEL) error {
	holders := map[share]checkpoint.Record{}
	for _, r := range records {
		holders[share{r.Pool, r.Device, r.ShareID}] = r
	}
	for _, d := range dels {
		holders[share{d.Record.Pool, d.Record.Device, d.Record.ShareID}] = d.Record
	}
	for _, claim := range claims {
		if claim.Status.Allocation == nil {
			continue // refused in words later
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			s := share{pool: r.Pool, device: r.Device}
			if r.ShareID != nil {
				s.id = string(*r.ShareID)
			}
			holder, found := holders[s]
			if r.Driver != driver || !found || holder.Claim.UID == string(claim.UID) && reservedFor(claim, holder.Pod) {
				continue
			}
			return reason.Errorf(reason.DeviceInUse, "device %q of pool %q is still in use on this node by claim %s/%s for pod %s: it is free when that pod is gone",
				r.Device, r.Pool, holder.Claim.Namespace, holder.Claim.Name, holder.Pod.Name)
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

// waitForDevices waits until no other claim has the claims' devices.
func (d *Driver) waitForDevices(ctx context.Context, claims []*resourceapi.ResourceClaim) error {
	check := func() error {
		return inUse(claims, d.cfg.DriverName, d.store.All(), d.store.PendingDELs())
	}
	err := check()
	if err == nil {
		return nil
	}
	d.sweeper.poke() // a sandbox that is gone may still hold it
	over := time.NewTimer(releaseWait)
	defer over.Stop()
	for {
		select {
		case <-time.After(releasePoll):
			if err = check(); err == nil {
				return nil
			}
		case <-over.C:
			return err
		case <-ctx.Done():
			return err
		}
	}
}
