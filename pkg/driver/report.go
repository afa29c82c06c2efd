package driver

import (
	"context"
	"encoding/json"
	"fmt"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/cniresult"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
)

// reportPrepareFailure puts the error on the claim's devices and on the pod.
func (d *Driver) reportPrepareFailure(claim *resourceapi.ResourceClaim, err error) {
	d.claimStatus.Set(refOf(claim), claimstatus.PrepareFailed(claim, d.cfg.DriverName, err))
	for _, consumer := range claim.Status.ReservedFor {
		d.events.Pod(consumerOf(claim, consumer), corev1.EventTypeWarning, events.FailedPrepareNetwork, err.Error())
	}
}

// reportAttach tells that a sandbox is attached: on every claim and as events. It
// only queues. The pod's network-status, which containers wait for, comes first:
// see runJob.
func (d *Driver) reportAttach(sandbox attachment.Sandbox) {
	records := d.store.ForPod(sandbox.Pod.UID)
	for claim, devices := range claimstatus.ByClaim(records, claimstatus.Attached) {
		d.claimStatus.Set(claim, devices)
	}
	for _, r := range checkpoint.Networks(records) {
		d.events.Pod(sandbox.Pod, corev1.EventTypeNormal, events.AddedInterface, addedMessage(r))
	}
}

// addedMessage returns the text of the AddedInterface event in Multus' words.
func addedMessage(r checkpoint.Record) string {
	var result types100.Result
	_ = json.Unmarshal(r.Result, &result) // a result without addresses has the same text
	ips := []string{}
	for _, p := range cniresult.Addresses(&result) {
		ips = append(ips, p.String())
	}
	return fmt.Sprintf("Add %s %v from %s", r.Attachment.Interface, ips, r.Attachment.Network)
}

// reportTrouble tells why a sandbox is not attached, for good or for now.
func (d *Driver) reportTrouble(sandbox attachment.Sandbox, err error) {
	failed := func(r checkpoint.Record) claimstatus.Device { return claimstatus.AttachFailed(r, err) }
	for claim, devices := range claimstatus.ByClaim(d.store.ForPod(sandbox.Pod.UID), failed) {
		d.claimStatus.Set(claim, devices)
	}
	d.events.Pod(sandbox.Pod, corev1.EventTypeWarning, events.FailedAttachNetwork, err.Error())
}

// reportSlow tells that a sandbox is still being attached. A failed attempt
// has its own event.
func (d *Driver) reportSlow(ctx context.Context, j *job) {
	if !j.unfailed() {
		return
	}
	d.events.Pod(j.sandbox.Pod, corev1.EventTypeNormal, events.AttachingNetwork,
		reason.AttachRunning.Text("attaching the networks takes longer than "+slowAttach.String()+"; the containers are held until it is done"))
	klog.FromContext(ctx).Info("Attaching takes long; the gate holds the containers", "sandbox", j.sandbox.ID)
}

// delDeferred schedules the retries of a DEL that the pod no longer waits for, and reports
// it on the pod.
func (d *Driver) delDeferred(r checkpoint.Record, cause error) {
	d.retrier.Add(r)
	d.events.Pod(r.Pod, corev1.EventTypeWarning, events.FailedReleaseNetwork, fmt.Sprintf(
		"%v; what the plugin keeps for sandbox %.12s, such as addresses, stays taken until nadra's retries succeed", cause, r.Sandbox.ID))
}

// reportDamage tells of a file of the driver's state that could not be read.
func (d *Driver) reportDamage(ctx context.Context, damaged checkpoint.Damaged) {
	klog.FromContext(ctx).Error(damaged.Err, "A file of the state could not be read and was put aside", "name", damaged.Name, "file", damaged.Path)
	d.events.Node(corev1.EventTypeWarning, events.NetworkStateDamaged, truncate.Text(fmt.Sprintf(
		"the state of claim %s could not be read and was put aside as %s: %v; delete the claim's pod", damaged.Name, damaged.Path, damaged.Err), events.MaxMessage))
}

// repairStatus has written what an earlier driver attached and did not live to
// tell.
func (d *Driver) repairStatus(sandbox attachment.Sandbox) {
	records := d.store.ForPod(sandbox.Pod.UID)
	d.networkStatus.Repair(sandbox, records)
	for claim, devices := range claimstatus.ByClaim(records, claimstatus.AttachedBefore) {
		d.claimStatus.Repair(claim, devices)
	}
}

// reportStatusLate tells that the pod's network-status is late. It is an event of
// its own: nothing else shows on a pod whose networks are attached.
func (d *Driver) reportStatusLate(pod attachment.PodRef, err error) {
	d.metrics.NetworkStatusLate()
	waiting := "the containers wait for it"
	if !d.cfg.NetworkStatusWait {
		waiting = "the containers do not wait for it (--network-status-wait=false)"
	}
	why := "the API server has not answered"
	if err != nil {
		why = err.Error()
	}
	d.events.Pod(pod, corev1.EventTypeWarning, events.NetworkStatusLate, reason.StatusNotStored.Text(fmt.Sprintf(
		"the networks are attached, but network-status is not stored after %s, and %s: %s; nadra goes on trying", networkstatus.Late, waiting, why)))
}
