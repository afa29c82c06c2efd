package driver

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Reasons of the pod events. AddedInterface is Multus' (behaviour B4-5).
const (
	eventAdded         = "AddedInterface"
	eventPrepareFailed = "FailedPrepareNetwork"
	eventAttachFailed  = "FailedAttachNetwork"
)

// reportPrepareFailure puts the error on the claim's devices and on the pod.
func (d *Driver) reportPrepareFailure(claim *resourceapi.ResourceClaim, err error) {
	d.status.setClaim(refOf(claim), unpreparedStates(claim, d.cfg.DriverName, err))
	for _, consumer := range claim.Status.ReservedFor {
		d.event(consumerOf(claim, consumer), corev1.EventTypeWarning, eventPrepareFailed, err.Error())
	}
}

// reportAttach tells what RunPodSandbox did: on every claim, in the pod's
// network-status, and as events. It only queues.
func (d *Driver) reportAttach(sandbox attachment.Sandbox, err error) {
	records := d.store.ForPod(sandbox.Pod.UID)
	states := map[attachment.ClaimRef][]deviceState{}
	for _, r := range records {
		state := attachedState(r)
		if err != nil {
			state = failedState(r, err)
		}
		states[r.Claim] = append(states[r.Claim], state)
	}
	for claim, devices := range states {
		d.status.setClaim(claim, devices)
	}
	if err != nil {
		d.event(sandbox.Pod, corev1.EventTypeWarning, eventAttachFailed, err.Error())
		return
	}
	for _, r := range records {
		d.event(sandbox.Pod, corev1.EventTypeNormal, eventAdded, addedMessage(r))
	}
	d.status.setPod(sandbox, records)
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

// withPod puts the pod into the log lines of what follows.
func (d *Driver) withPod(ctx context.Context, pod attachment.PodRef) context.Context {
	logger := klog.LoggerWithValues(klog.FromContext(ctx), "pod", klog.KRef(pod.Namespace, pod.Name), "podUID", pod.UID)
	return klog.NewContext(ctx, logger)
}
