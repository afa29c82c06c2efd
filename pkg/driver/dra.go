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
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/dynamic-resource-allocation/kubeletplugin"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

const (
	// runtimeWait is how long Prepare waits for the container runtime before
	// it refuses; below the kubelet's 45 s per call. Waiting is cheaper than
	// failing: a failed Prepare is retried only after 60–90 s.
	runtimeWait = 30 * time.Second
	// runsOnLimit is how long Unprepare refuses for a sandbox that is there.
	runsOnLimit = 5 * time.Minute
	// unprepareTime bounds the DELs of one call, below the same 45 s.
	unprepareTime = 35 * time.Second
)

// plugin is what the kubelet calls, by way of the kubeletplugin helper.
type plugin struct{ d *Driver }

var _ kubeletplugin.DRAPlugin = plugin{}

// PrepareResourceClaims resolves the claims of one pod against the NADs of
// this moment and notes everything that the sandbox hook will need, and the
// gate that refers to it. It touches nothing else on the node, and a failure
// leaves nothing behind. It is all or nothing for the pod, and repeating it
// gives the same answer.
func (p plugin) PrepareResourceClaims(ctx context.Context, claims []*resourceapi.ResourceClaim) (map[types.UID]kubeletplugin.PrepareResult, error) {
	defer failpoint.Soon(failpoint.AfterPrepared)
	defer failpoint.Reach(failpoint.BeforePrepared)
	if !failpoint.Off(failpoint.RuntimeWait) {
		if err := p.d.waitForRuntime(ctx); err != nil {
			return nil, err
		}
	}
	failed := p.d.prepare(ctx, claims)
	results := map[types.UID]kubeletplugin.PrepareResult{}
	for _, claim := range claims {
		if err := failed[claim.UID]; err != nil {
			p.d.reportPrepareFailure(claim, err)
			results[claim.UID] = kubeletplugin.PrepareResult{Err: err}
			continue
		}
		results[claim.UID] = kubeletplugin.PrepareResult{Devices: devicesOf(p.d.store.ForClaim(string(claim.UID)))}
	}
	return results, nil
}

// UnprepareResourceClaims runs the DELs that are still owed and then forgets.
// It uses only what is on this node: the claims may be gone.
func (p plugin) UnprepareResourceClaims(ctx context.Context, claims []kubeletplugin.NamespacedObject) (map[types.UID]error, error) {
	defer failpoint.Soon(failpoint.AfterUnprepared)
	defer failpoint.Reach(failpoint.BeforeUnprepared)
	ctx, cancel := context.WithTimeoutCause(ctx, unprepareTime, errors.New("the time for unpreparing is over"))
	defer cancel()
	results := map[types.UID]error{}
	for _, claim := range claims {
		results[claim.UID] = p.d.unprepare(ctx, string(claim.UID))
	}
	return results, nil
}

// HandleError is told of errors in the background, above all while publishing.
func (p plugin) HandleError(ctx context.Context, err error, msg string) {
	var dropped *resourceslice.DroppedFieldsError
	if errors.As(err, &dropped) && p.d.publisher.dropped(dropped.DisabledFeatures()) {
		klog.FromContext(ctx).Info("The API server dropped fields of our slices; publishing without them", "features", dropped.DisabledFeatures())
		return
	}
	utilruntime.HandleErrorWithContext(ctx, err, msg)
	if !errors.Is(err, kubeletplugin.ErrRecoverable) {
		p.d.fail(fmt.Errorf("%s: %w", msg, err))
	}
}

// WatchHealthStatus is never called: the service is off.
func (p plugin) WatchHealthStatus(context.Context, chan<- kubeletplugin.DeviceHealthReport) error {
	return kubeletplugin.ErrHealthNotSupported
}

// waitForRuntime holds Prepare until the runtime would call our hooks: a pod
// prepared without them would start without its networks (design D4, first guard).
func (d *Driver) waitForRuntime(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, runtimeWait)
	defer cancel()
	if err := d.runtime.wait(ctx); err != nil {
		return fmt.Errorf("the container runtime has not connected nadra's NRI plugin on %s: "+
			"enable NRI in the runtime's configuration: %w", d.cfg.NRISocket, err)
	}
	return nil
}

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
	prepared, failed := d.plan(fresh)
	if len(failed) > 0 {
		return failed
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
			err = fmt.Errorf("claim %s/%s was unprepared for this pod already", claim.Namespace, claim.Name)
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
			return err
		}
	}
	var uids []string
	for _, claim := range claims {
		if len(d.store.ForClaim(string(claim.UID))) > 0 {
			uids = append(uids, string(claim.UID))
		}
	}
	for _, uid := range uids {
		if err := d.gate.write(uid, uids); err != nil {
			return err
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
		if slices.ContainsFunc(d.store.ForClaim(string(claim.UID)), checkpoint.Record.DELOwed) {
			return nil, fmt.Errorf("claim %s/%s is attached already while another claim of its pod is new: delete the pod", claim.Namespace, claim.Name)
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
	return d.gate.remove(uid)
}

// plan resolves the claims of one pod against the NADs of this moment.
func (d *Driver) plan(claims []*resourceapi.ResourceClaim) (prepared [][]attachment.Prepared, failed map[types.UID]error) {
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
				failed[claim.UID] = fmt.Errorf("claim %s/%s waits for the pod's other claims: %w", claim.Namespace, claim.Name, first)
			}
		}
		return nil, failed
	}
	plan, err := attachment.NewPlan(selectionsOf(requests), d.networks.usable)
	if err != nil {
		return nil, errorForAll(claims, err)
	}
	byClaim := map[attachment.ClaimRef][]attachment.Prepared{}
	for i, r := range requests {
		byClaim[r.claim] = append(byClaim[r.claim], attachment.Prepared{
			Claim: r.claim, Pod: r.pod, Index: i,
			Request: r.Request, Pool: r.Pool, Device: r.Device, ShareID: r.ShareID,
			Attachment: plan[i],
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
}

func (d *Driver) requestsOf(claim *resourceapi.ResourceClaim) ([]request, error) {
	pod, err := podOf(claim)
	if err != nil {
		return nil, err
	}
	requested, err := attachment.FromClaim(claim, d.networks.ofDevice)
	if err != nil {
		return nil, err
	}
	out := make([]request, len(requested))
	for i, r := range requested {
		out[i] = request{Requested: r, claim: refOf(claim), pod: pod}
	}
	return out, nil
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
			return pod, fmt.Errorf("status.reservedFor: %s %q is not a pod", consumer.Resource, consumer.Name)
		}
		pods = append(pods, consumer.Name)
		pod = consumerOf(claim, consumer)
	}
	switch len(pods) {
	case 0:
		return pod, errors.New("status.reservedFor: the claim is reserved for no pod")
	case 1:
		return pod, nil
	}
	return pod, fmt.Errorf("status.reservedFor: the claim is shared by the pods %s; a network attachment belongs to one pod: "+
		"use a ResourceClaimTemplate, which gives each pod a claim of its own", strings.Join(pods, ", "))
}

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
	d.status.forget(claim)
	return d.forget(uid)
}

// release runs the DELs that a claim owes while no other operation on its pod
// runs.
func (d *Driver) release(ctx context.Context, pod attachment.PodRef, uid string) error {
	unlock, err := d.pods.lock(ctx, pod.UID)
	if err != nil {
		return err
	}
	defer unlock()
	return d.attacher.release(d.withPod(ctx, pod), uid)
}

// stillRuns returns an error while the sandbox of a claim has its network
// namespace. The kubelet unprepares after it has stopped the sandbox, but the
// loop with which it looks for claims of pods that are gone does not wait for
// their containers (a forced deletion is enough): they would lose their
// networks while they run. The loop comes again. Should a namespace outlive its
// sandbox, this gives way after a while.
func (d *Driver) stillRuns(records []checkpoint.Record, now time.Time) error {
	for _, r := range records {
		if !r.DELOwed() || !d.attacher.there(r) {
			continue
		}
		if since := d.refused.since(r.Claim.UID, now); now.Sub(since) < runsOnLimit {
			return fmt.Errorf("the pod's sandbox %.12s still has its network namespace: it is detached when it was stopped", r.Sandbox.ID)
		}
	}
	return nil
}

func devicesOf(records []checkpoint.Record) []kubeletplugin.Device {
	out := make([]kubeletplugin.Device, len(records))
	for i, r := range records {
		out[i] = kubeletplugin.Device{Requests: []string{r.Request}, PoolName: r.Pool, DeviceName: r.Device}
		if !failpoint.Off(failpoint.Gate) {
			out[i].CDIDeviceIDs = []string{gateDevice(r.Claim.UID)}
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
