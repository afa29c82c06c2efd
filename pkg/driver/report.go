package driver

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Reasons of events. AddedInterface is Multus' (behaviour B4-5).
const (
	eventAdded         = "AddedInterface"
	eventPrepareFailed = "FailedPrepareNetwork"
	eventAttaching     = "AttachingNetwork"
	eventAttachFailed  = "FailedAttachNetwork"
	eventReleaseFailed = "FailedReleaseNetwork"
	eventStateDamaged  = "NetworkStateDamaged"
	eventNoClaim       = "FailedNoClaim"
	eventStatusLate    = "NetworkStatusLate"
)

// reportPrepareFailure puts the error on the claim's devices and on the pod.
func (d *Driver) reportPrepareFailure(claim *resourceapi.ResourceClaim, err error) {
	d.claimStatus.set(refOf(claim), unpreparedStates(claim, d.cfg.DriverName, err))
	for _, consumer := range claim.Status.ReservedFor {
		d.event(consumerOf(claim, consumer), corev1.EventTypeWarning, eventPrepareFailed, err.Error())
	}
}

// reportAttach tells that a sandbox is attached: on every claim and as events. It
// only queues. The pod's network-status, which containers wait for, comes first:
// see runJob.
func (d *Driver) reportAttach(sandbox attachment.Sandbox) {
	records := d.store.ForPod(sandbox.Pod.UID)
	for claim, devices := range statesByClaim(records, attachedState) {
		d.claimStatus.set(claim, devices)
	}
	for _, r := range networksIn(records) {
		d.event(sandbox.Pod, corev1.EventTypeNormal, eventAdded, addedMessage(r))
	}
}

// reportTrouble tells why a sandbox is not attached, for good or for now.
func (d *Driver) reportTrouble(sandbox attachment.Sandbox, err error) {
	failed := func(r checkpoint.Record) deviceState { return failedState(r, err) }
	for claim, devices := range statesByClaim(d.store.ForPod(sandbox.Pod.UID), failed) {
		d.claimStatus.set(claim, devices)
	}
	d.event(sandbox.Pod, corev1.EventTypeWarning, eventAttachFailed, err.Error())
}

// reportSlow tells that a sandbox is still being attached. A failed attempt
// has its own event.
func (d *Driver) reportSlow(ctx context.Context, j *job) {
	if !j.unfailed() {
		return
	}
	d.event(j.sandbox.Pod, corev1.EventTypeNormal, eventAttaching,
		"attaching the networks takes longer than "+slowAttach.String()+"; the containers are held until it is done")
	klog.FromContext(ctx).Info("Attaching takes long; the gate holds the containers", "sandbox", j.sandbox.ID)
}

// reportHandOver tells of a DEL that failed for so long that nobody waits for
// it any more.
func (d *Driver) reportHandOver(r checkpoint.Record, cause error) {
	d.event(r.Pod, corev1.EventTypeWarning, eventReleaseFailed, fmt.Sprintf(
		"%v; what the plugin keeps for sandbox %.12s (addresses, for one) stays taken, and nadra goes on trying", cause, r.Sandbox.ID))
}

// reportDamage tells of a file of the driver's state that could not be read.
func (d *Driver) reportDamage(ctx context.Context, damaged checkpoint.Damaged) {
	klog.FromContext(ctx).Error(damaged.Err, "A file of the state could not be read and was put aside", "name", damaged.Name, "file", damaged.Path)
	d.events.Event(d.nodeRef(), corev1.EventTypeWarning, eventStateDamaged, cut(fmt.Sprintf(
		"the state of claim %s could not be read and was put aside as %s: %v; delete the claim's pod", damaged.Name, damaged.Path, damaged.Err), maxEventMessage))
}

// repairStatus has written what an earlier driver attached and did not live to
// tell.
func (d *Driver) repairStatus(sandbox attachment.Sandbox) {
	records := d.store.ForPod(sandbox.Pod.UID)
	d.networkStatus.repair(sandbox, records)
	for claim, devices := range statesByClaim(records, uncheckedState) {
		d.claimStatus.amend(claim, devices)
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
	d.event(pod, corev1.EventTypeWarning, eventStatusLate, fmt.Sprintf(
		"the networks are attached, but network-status is not stored after %s, and %s: %s; nadra goes on trying", networkStatusLate, waiting, why))
}

// event queues an event on a pod. The broadcaster writes it in the background.
func (d *Driver) event(pod attachment.PodRef, eventType, reason, message string) {
	ref := &corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod",
		Namespace: pod.Namespace, Name: pod.Name, UID: types.UID(pod.UID),
	}
	d.events.Event(ref, eventType, reason, cut(message, maxEventMessage))
}

// maxEventMessage is the API's limit for the message of an event, in bytes.
const maxEventMessage = 1024

// logOf is the log for one record's attachment, in a context that has the pod.
func logOf(ctx context.Context, r checkpoint.Record) klog.Logger {
	return klog.LoggerWithValues(klog.FromContext(ctx), "claim", klog.KRef(r.Claim.Namespace, r.Claim.Name),
		"network", r.Attachment.Network, "interface", r.Attachment.Interface)
}

// withPod puts the pod into the log lines of what follows.
func (d *Driver) withPod(ctx context.Context, pod attachment.PodRef) context.Context {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KRef(pod.Namespace, pod.Name), "podUID", pod.UID)
	return klog.NewContext(ctx, logger)
}
