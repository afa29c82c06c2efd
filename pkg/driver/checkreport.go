package driver

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// Reasons of events on a pod, and of the condition of a claim's device.
const (
	eventCheckFailed  = "FailedCheckNetwork"
	eventChecked      = "CheckedNetwork"
	reasonCheckFailed = "CheckFailed"
)

// reportCheck tells what a CHECK of all attachments of a pod has found: on
// every claim, where it does not say so already, and as events. What is as it
// should be is an event only for an owner who asked. The pod is locked.
func (d *Driver) reportCheck(ctx context.Context, pod attachment.PodRef, records []checkpoint.Record, found map[checkpoint.Key]checkResult, asked bool) {
	d.checks.note(records, found, d.store.All())
	state := func(r checkpoint.Record) deviceState { return checkedState(r, found[r.Key()].err) }
	for claim, devices := range statesByClaim(records, state) {
		d.claimStatus.amend(claim, devices)
	}
	for _, r := range records {
		at := r.Attachment
		switch err := found[r.Key()].err; {
		case err != nil:
			logOf(ctx, r).Info("CHECK of an attachment fails", "reason", cniMessage(err))
			d.event(pod, corev1.EventTypeWarning, eventCheckFailed, fmt.Sprintf(
				"CHECK of network %s (%s) fails: %s; the pod is left as it is: to have it attached anew, delete it",
				at.Network, at.Interface, cut(cniMessage(err), maxEventMessage/2)))
		case asked:
			d.event(pod, corev1.EventTypeNormal, eventChecked, d.checkedMessage(at, found[r.Key()].unchecked))
		}
	}
}

func (d *Driver) checkedMessage(at attachment.Attachment, unchecked []string) string {
	if len(unchecked) > 0 {
		return fmt.Sprintf("network %s (%s) could be checked in part at most: plugin %s, or its IPAM plugin, implements no CHECK",
			at.Network, at.Interface, strings.Join(unchecked, ", "))
	}
	if !d.checks.plugins.HasCheck(at) {
		return fmt.Sprintf("network %s (%s) has no CHECK: its configuration is of a cniVersion before 0.4.0, or says disableCheck", at.Network, at.Interface)
	}
	return fmt.Sprintf("network %s (%s) is as it was attached", at.Network, at.Interface)
}

// reportUncheckable tells an owner who asked that there is nothing to check.
func (d *Driver) reportUncheckable(r checkpoint.Record) {
	why := "its sandbox is gone"
	if r.Phase != checkpoint.Attached {
		why = "it is not attached, phase " + string(r.Phase)
	}
	d.event(r.Pod, corev1.EventTypeWarning, eventCheckFailed, fmt.Sprintf(
		"network %s (%s) was not checked: %s", r.Attachment.Network, r.Attachment.Interface, why))
}

// checkedState describes a record of an attachment that was checked.
func checkedState(r checkpoint.Record, err error) deviceState {
	s := attachedState(r)
	if err != nil {
		s.Reason, s.Message = reasonCheckFailed, fmt.Sprintf("%s, but its CHECK fails: %s", s.Message, cniMessage(err))
	}
	return s
}

// uncheckedState describes a record whose attachment may have been checked by
// an earlier driver: what that has found stands until the next CHECK.
func uncheckedState(r checkpoint.Record) deviceState {
	s := attachedState(r)
	s.Unchecked = true
	return s
}
