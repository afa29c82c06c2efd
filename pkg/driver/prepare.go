package driver

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cdi"
)

// prepare notes the attachments of all claims of one pod, or of none; then it
// returns an error for each. Claims that are noted already keep what they have.
func (d *Driver) prepare(ctx context.Context, claims []*resourceapi.ResourceClaim) map[types.UID]error {
	unlock, err := d.lockForPrepare(ctx, claims)
	if err != nil {
		return errorForAll(claims, err)
	}
	defer unlock()
	fresh, err := d.forgetPartial(claims)
	if err != nil {
		return errorForAll(claims, err)
	}
	prepared, failed := d.plan(ctx, fresh)
	if len(failed) > 0 {
		return failed
	}
	if err := d.refuseUngated(ctx, claims, prepared); err != nil {
		return errorForAll(claims, err)
	}
	if err := d.note(claims, prepared); err != nil {
		for _, claim := range fresh {
			err = errors.Join(err, d.forget(string(claim.UID)))
		}
		return errorForAll(claims, err)
	}
	return nil
}

// lockForPrepare takes the lock of the claims' pod once their devices are
// free. A call that the kubelet has given up, and whose claims it may have
// unprepared meanwhile, changes nothing any more.
func (d *Driver) lockForPrepare(ctx context.Context, claims []*resourceapi.ResourceClaim) (unlock func(), err error) {
	if err := d.waitForDevices(ctx, claims); err != nil {
		return nil, err
	}
	var pod attachment.PodRef
	for _, claim := range claims { // one that is for no pod, or for several, is refused in words later
		if p, err := podOf(claim); err == nil {
			pod = p
		}
	}
	unlock, err = d.pods.lock(ctx, pod.UID)
	if err != nil {
		return nil, err
	}
	for _, claim := range claims {
		if d.buried.has(string(claim.UID), pod.UID, time.Now()) {
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

// note writes the records, and then the gate that refers to them. The gate is
// written also for claims that were noted before: its file may have been lost.
func (d *Driver) note(claims []*resourceapi.ResourceClaim, prepared [][]attachment.Prepared) error {
	for _, p := range prepared {
		if err := d.store.Put(p); err != nil {
			return reason.Wrap(reason.StateNotWritten, err)
		}
	}
	var ofPod []checkpoint.Record
	for _, claim := range claims {
		ofPod = append(ofPod, d.store.ForClaim(string(claim.UID))...)
	}
	for _, uid := range checkpoint.ClaimUIDs(ofPod) {
		if err := d.cdi.Write(uid, ofPod); err != nil {
			return reason.Wrap(reason.StateNotWritten, err)
		}
	}
	return nil
}

// forgetPartial returns the claims that are to be planned: all or none, as
// interface names are given out over the whole pod. Some are noted and some
// not only after a crash within a Prepare that was never answered; then
// nothing was attached, and it begins anew.
func (d *Driver) forgetPartial(claims []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, error) {
	noted := 0
	for _, claim := range claims {
		if len(d.store.ForClaim(string(claim.UID))) > 0 {
			noted++
		}
	}
	if noted == len(claims) {
		return nil, nil
	}
	for _, claim := range claims {
		if slices.ContainsFunc(d.store.ForClaim(string(claim.UID)), checkpoint.Record.NeedsDEL) {
			return nil, reason.Errorf(reason.ClaimIncomplete, "claim %s/%s is attached already while another claim of its pod is new: delete the pod", claim.Namespace, claim.Name)
		}
	}
	for _, claim := range claims {
		if err := d.forget(string(claim.UID)); err != nil {
			return nil, err
		}
	}
	return claims, nil
}

// forget removes what note has written for one claim. It may be repeated.
func (d *Driver) forget(uid string) error {
	if err := d.store.DeleteClaim(uid); err != nil {
		return err
	}
	return d.cdi.Remove(uid)
}

// plan resolves the claims of one pod against the NADs and the hardware of this
// moment.
func (d *Driver) plan(ctx context.Context, claims []*resourceapi.ResourceClaim) (prepared [][]attachment.Prepared, failed map[types.UID]error) {
	failed = map[types.UID]error{}
	var requests []request
	for _, claim := range claims {
		rs, err := d.requestsOf(claim)
		if err != nil {
			failed[claim.UID] = fmt.Errorf("preparing claim %s/%s: %w", claim.Namespace, claim.Name, err)
		}
		requests = append(requests, rs...)
	}
	if first := firstError(claims, failed); first != nil {
		for _, claim := range claims {
			if failed[claim.UID] == nil {
				failed[claim.UID] = reason.Errorf(reason.OtherClaimFailed, "claim %s/%s waits for the pod's other claims: %w", claim.Namespace, claim.Name, first)
			}
		}
		return nil, failed
	}
	requests, err := d.pair(ctx, requests)
	if err != nil {
		return nil, errorForAll(claims, err)
	}
	if err := d.lend(ctx, requests); err != nil {
		return nil, errorForAll(claims, err)
	}
	plan, err := d.resolve(requests)
	if err != nil {
		return nil, errorForAll(claims, err)
	}
	byClaim := map[attachment.ClaimRef][]attachment.Prepared{}
	for i, p := range plan {
		byClaim[p.claim] = append(byClaim[p.claim], attachment.Prepared{
			Claim: p.claim, Pod: p.pod, Index: i,
			Request: p.Request, Pool: p.Pool, Device: p.Device, ShareID: p.ShareID,
			Attachment: p.attachment, Hardware: p.hardware, DeviceOnly: p.DeviceOnly(),
		})
	}
	return slices.Collect(maps.Values(byClaim)), nil
}

func errorForAll(claims []*resourceapi.ResourceClaim, err error) map[types.UID]error {
	failed := map[types.UID]error{}
	for _, claim := range claims {
		failed[claim.UID] = fmt.Errorf("preparing claim %s/%s: %w", claim.Namespace, claim.Name, err)
	}
	return failed
}

// request is one device of ours in one claim of a pod.
type request struct {
	attachment.Requested
	claim attachment.ClaimRef
	pod   attachment.PodRef
	// pooled says that the device is one of a resource pool, and extended that
	// the pod asked for it as an extended resource.
	pooled, extended bool
	// lent is the ID of another driver's device that the network gets.
	lent string
}

func (d *Driver) requestsOf(claim *resourceapi.ResourceClaim) ([]request, error) {
	pod, err := podOf(claim)
	if err != nil {
		return nil, err
	}
	requested, err := attachment.FromClaim(claim, d.ofDevice)
	if err != nil {
		return nil, err
	}
	out := make([]request, len(requested))
	for i, r := range requested {
		out[i] = request{Requested: r, claim: refOf(claim), pod: pod, pooled: d.pooled(r.Pool), extended: isExtended(claim)}
		if r.DeviceOnly() {
			continue
		}
		if err := d.cfg.Isolation.Allow(pod.Namespace, r.Selection.Network); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ofDevice returns the NAD that a device stands for, or none for a device of a
// resource pool.
func (d *Driver) ofDevice(pool, device string) (attachment.NetworkRef, error) {
	if d.pooled(pool) {
		return attachment.NetworkRef{}, nil
	}
	return d.networks.ofDevice(pool, device)
}

// pooled reports whether the devices of a DRA pool are those of resource pools.
func (d *Driver) pooled(pool string) bool {
	return strings.HasPrefix(pool, d.cfg.NodeName+ofPF) || pool == d.cfg.NodeName+withoutPF
}

// refOf and consumerOf are the places where the API's claim becomes ours.
func refOf(claim *resourceapi.ResourceClaim) attachment.ClaimRef {
	return attachment.ClaimRef{Namespace: claim.Namespace, Name: claim.Name, UID: string(claim.UID)}
}

func consumerOf(claim *resourceapi.ResourceClaim, c resourceapi.ResourceClaimConsumerReference) attachment.PodRef {
	return attachment.PodRef{Namespace: claim.Namespace, Name: c.Name, UID: string(c.UID)}
}

// podOf returns the one pod that a claim is reserved for. A network interface
// is in one pod: a claim for several could only be attached to the first.
func podOf(claim *resourceapi.ResourceClaim) (attachment.PodRef, error) {
	var pods []string
	var pod attachment.PodRef
	for _, consumer := range claim.Status.ReservedFor {
		if consumer.Resource != "pods" || consumer.APIGroup != "" {
			return pod, reason.Errorf(reason.ClaimNotReserved, "status.reservedFor: %s %q is not a pod", consumer.Resource, consumer.Name)
		}
		pods = append(pods, consumer.Name)
		pod = consumerOf(claim, consumer)
	}
	switch len(pods) {
	case 0:
		return pod, reason.Errorf(reason.ClaimNotReserved, "status.reservedFor: the claim is reserved for no pod")
	case 1:
		return pod, nil
	}
	return pod, reason.Errorf(reason.ClaimShared, "status.reservedFor: the claim is shared by the pods %s; a network attachment belongs to one pod: "+
		"use a ResourceClaimTemplate, which gives each pod a claim of its own", strings.Join(pods, ", "))
}

func (d *Driver) devicesOf(records []checkpoint.Record) []kubeletplugin.Device {
	out := make([]kubeletplugin.Device, len(records))
	for i, r := range records {
		out[i] = kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device}
		if d.cfg.DeviceMetadata {
			out[i].Metadata = metadataOf(r)
		}
		if !failpoint.Off(failpoint.Gate) {
			out[i].CDIDeviceIDs = cdi.DeviceIDs(r)
		}
		if r.ShareID != "" {
			share := types.UID(r.ShareID)
			out[i].ShareID = &share
		}
	}
	return out
}

func selectionsOf(requests []request) []attachment.Selection {
	out := make([]attachment.Selection, len(requests))
	for i, r := range requests {
		out[i] = r.Selection
	}
	return out
}

func firstError(claims []*resourceapi.ResourceClaim, failed map[types.UID]error) error {
	for _, claim := range claims {
		if err := failed[claim.UID]; err != nil {
			return err
		}
	}
	return nil
}
