package driver

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

// planner resolves the claims of a pod against the present NADs and hardware.
type planner struct {
	*node
	networks *publish.View
	devices  *hwdevices.View
}

// request is a request for one device of nadra's in a claim of a pod.
type request struct {
	attachment.Requested
	claim attachment.ClaimRef
	pod   attachment.PodRef
	// pooled is true if the device belongs to a resource pool, extended if the pod has
	// requested it as an extended resource.
	pooled, extended bool
	// ofPool is another driver's device that a network with a resource pool uses, or nil.
	ofPool *attachment.OtherDriverDevice
}

// planned is a request with its attachment and the device of a pool that it has.
type planned struct {
	request
	attachment attachment.Attachment // empty if it is only for a device
	hardware   *attachment.Hardware
}

// plan returns what is to be recorded for each claim, or an error for each.
func (p *planner) plan(ctx context.Context, claims []*resourceapi.ResourceClaim) (prepared [][]attachment.Prepared, failed map[types.UID]error) {
	failed = map[types.UID]error{}
	var requests []request
	for _, claim := range claims {
		rs, err := p.requestsOf(claim)
		if err != nil {
			failed[claim.UID] = preparing(claim, err)
		}
		requests = append(requests, rs...)
	}
	if first := firstError(claims, failed); first != nil {
		for _, claim := range claims {
			if failed[claim.UID] == nil {
				failed[claim.UID] = reason.Errorf(reason.OtherClaimFailed, "claim %s waits for the pod's other claims: %w", refOf(claim), first)
			}
		}
		return nil, failed
	}
	requests, err := p.pairExtended(ctx, requests)
	if err != nil {
		return nil, errorForAll(claims, err)
	}
	if err := p.findOtherDevices(ctx, requests); err != nil {
		return nil, errorForAll(claims, err)
	}
	plan, err := p.resolve(requests)
	if err != nil {
		return nil, errorForAll(claims, err)
	}
	byClaim := map[attachment.ClaimRef][]attachment.Prepared{}
	for i, r := range plan {
		byClaim[r.claim] = append(byClaim[r.claim], attachment.Prepared{
			Claim: r.claim, Pod: r.pod, Index: i,
			Request: r.Request, Pool: r.Pool, Device: r.Device, ShareID: r.ShareID,
			Attachment: r.attachment, Hardware: r.hardware, OfPool: r.ofPool, DeviceOnly: r.DeviceOnly(),
		})
	}
	return slices.Collect(maps.Values(byClaim)), nil
}

// requestsOf returns a claim's requests for devices of nadra's.
func (p *planner) requestsOf(claim *resourceapi.ResourceClaim) ([]request, error) {
	pod, err := podOf(claim)
	if err != nil {
		return nil, err
	}
	requested, err := attachment.FromClaim(claim, p.suits)
	if err != nil {
		return nil, err
	}
	out := make([]request, len(requested))
	for i, r := range requested {
		out[i] = request{Requested: r, claim: refOf(claim), pod: pod, pooled: hwdevices.IsDRAPool(p.cfg.NodeName, r.Pool), extended: isExtended(claim)}
		if r.DeviceOnly() {
			continue
		}
		if err := p.cfg.Isolation.Allow(pod.Namespace, r.Selection.Network); err != nil {
			return nil, err
		}
		if _, err := p.networks.Usable(r.Selection.Network); err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
	}
	return out, nil
}

// suits returns an error if a claim may not attach a network with its allocated device. A device of a
// resource pool may be without a network, and bind checks whether it suits the claim's.
func (p *planner) suits(r attachment.Requested, ofClass bool) error {
	if hwdevices.IsDRAPool(p.cfg.NodeName, r.Pool) {
		return nil
	}
	return p.networks.Suits(r.Device, r.Selection.Network, ofClass)
}

// resolve makes the plan of a pod's requests: the networks in their order, each with its
// device, and then the devices without a network.
func (p *planner) resolve(requests []request) ([]planned, error) {
	var networks, devices []request
	for _, r := range requests {
		if r.DeviceOnly() {
			devices = append(devices, r)
			continue
		}
		networks = append(networks, r)
	}
	plan, err := attachment.NewPlan(selectionsOf(networks), p.networks.Usable)
	if err != nil {
		return nil, err
	}
	var out []planned
	for i, r := range networks {
		one, err := p.bind(r, plan, i, out)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
		out = append(out, one)
	}
	for _, r := range devices {
		hardware, err := p.deviceForPod(r, nil)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
		out = append(out, planned{request: r, hardware: hardware})
	}
	return out, nil
}

// renew returns an attachment with its network's present configuration. One whose NAD is deleted, or not
// read yet, keeps the configuration that it has.
func (p *planner) renew(a attachment.Attachment) (attachment.Attachment, error) {
	network, found, err := p.networks.Defined(a.Network)
	switch {
	case !found:
		return a, nil
	case err != nil:
		return a, fmt.Errorf("NetworkAttachmentDefinition %s has changed: %w", a.Network, err)
	}
	return a.Renewed(network)
}

// bind makes the attachment i of a plan use the device that was allocated for it. earlier are the requests of the
// attachments before it.
func (p *planner) bind(r request, plan attachment.Plan, i int, earlier []planned) (planned, error) {
	a := plan[i]
	out := planned{request: r, attachment: a}
	network, err := p.networks.Usable(a.Network)
	if err != nil {
		return out, err
	}
	if r.Other != nil {
		out.attachment, err = bindOther(r, network, plan, i, earlier)
		return out, err
	}
	if r.ofPool != nil {
		out.attachment, err = a.WithDevice(r.ofPool.ID)
		return out, err
	}
	if !r.pooled {
		return out, network.DrawsFrom(nil)
	}
	if out.hardware, err = p.deviceForPod(r, &network); err != nil {
		return out, err
	}
	if out.hardware.ID == "" { // a share of several functions
		return out, nil
	}
	out.attachment, err = a.WithDevice(out.hardware.ID)
	return out, err
}

// deviceForPod describes the allocated device of a pool for its pod. network is nil if the
// device is not for a network.
func (p *planner) deviceForPod(r request, network *attachment.Network) (*attachment.Hardware, error) {
	device, err := p.deviceOf(r)
	if err != nil {
		return nil, err
	}
	out, err := device.ForPod()
	if err != nil {
		return nil, err
	}
	out.Extended, out.BootID = r.extended, p.store.BootID()
	if network == nil {
		return &out, nil
	}
	if err := network.DrawsFrom(&out); err != nil {
		return nil, err
	}
	if err := device.CheckSuitable(*network); err != nil {
		return nil, err
	}
	if !device.IsShared() {
		out.Original, err = hwdevices.NewRestorer(p.cfg.Hardware.SysRoot).Describe(device.Function())
	}
	return &out, err
}

// rereadDevices replaces the devices in a claim's records that were read in an earlier boot of the node. The original
// state, to which the DEL restores a device, stays. It refuses a device that is gone, or lacks what it had, because its
// drivers may come later in the boot: the kubelet asks again.
func (p *planner) rereadDevices(claimUID string) error {
	for _, r := range p.store.ForClaim(claimUID) {
		before := r.Hardware
		if before == nil || cmp.Or(before.BootID, r.BootID) == p.store.BootID() {
			continue
		}
		device, err := p.deviceOf(request{Requested: attachment.Requested{Pool: r.Pool, Device: r.Device}})
		var now attachment.Hardware
		if err == nil {
			now, err = device.ForPod()
		}
		if err == nil && (len(now.Files) < len(before.Files) || len(now.Info) < len(before.Info)) {
			err = reason.Errorf(reason.DeviceGone, "device %s of pool %s lacks device files, or a part of its description: if that lasts, delete the pod", r.Device, r.Pool)
		}
		if err != nil {
			return fmt.Errorf("reading the device of pod %s again since the node was booted: %w; the kubelet asks again", r.Pod, err)
		}
		now.Extended, now.Original, now.BootID = before.Extended, before.Original, p.store.BootID()
		if err := p.store.SetHardware(r.Key(), now); err != nil {
			return err
		}
	}
	return nil
}

// deviceOf returns the allocated device of a pool.
func (p *planner) deviceOf(r request) (hwdevices.Device, error) {
	device, ok := p.devices.Lookup(r.Pool, r.Device)
	if !ok {
		return device, reason.Errorf(reason.DeviceGone, "device %s of pool %s is not on this node, or no resource pool selects it any more: delete the pod, so that the next one gets another device", r.Device, r.Pool)
	}
	if device.Gone {
		return device, reason.Errorf(reason.DeviceGone, "device %s of pool %s, which was %s of %s, is gone from this node, or from its resource pool: delete the pod, so that the next one gets another device",
			r.Device, r.Pool, device.Function().ID, device.Pool.ResourceName)
	}
	if err := device.Claimed(); err != nil {
		return device, fmt.Errorf("device %s of pool %s cannot be used: %w: let only one of the two serve resource %s on this node",
			r.Device, r.Pool, err, device.Pool.ResourceName)
	}
	return device, nil
}

// selectionsOf returns the networks that requests select.
func selectionsOf(requests []request) []attachment.Selection {
	out := make([]attachment.Selection, len(requests))
	for i, r := range requests {
		out[i] = r.Selection
	}
	return out
}

// firstError returns the error of the first claim that has one.
func firstError(claims []*resourceapi.ResourceClaim, failed map[types.UID]error) error {
	for _, claim := range claims {
		if err := failed[claim.UID]; err != nil {
			return err
		}
	}
	return nil
}
