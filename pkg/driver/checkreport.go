package driver

import (
	"context"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podlog"
	"github.com/nadra-dev/nadra/pkg/driver/internal/truncate"
)

// reportCheck tells what a CHECK of all attachments of a pod has found: on
// every claim, where it does not say so already, and as events. What is as it
// should be is an event only for an owner who asked. The pod is locked.
func (d *Driver) reportCheck(ctx context.Context, pod attachment.PodRef, records []checkpoint.Record, found map[checkpoint.Key]checkResult, asked bool) {
	d.checks.note(records, found, d.store.All())
	state := func(r checkpoint.Record) claimstatus.Device {
		if err := found[r.Key()].err; err != nil {
			return claimstatus.CheckFailed(r, cniMessage(err))
		}
		return claimstatus.Attached(r)
	}
	for claim, devices := range claimstatus.ByClaim(records, state) {
		d.claimStatus.Repair(claim, devices)
	}
	for _, r := range records {
		at := r.Attachment
		switch err := found[r.Key()].err; {
		case err != nil:
			podlog.ForRecord(ctx, r).Info("CHECK of an attachment fails", "reason", cniMessage(err))
			d.events.Pod(pod, corev1.EventTypeWarning, events.FailedCheckNetwork, fmt.Sprintf(
				"CHECK of network %s (%s) fails: %s; the pod is left as it is: to have it attached anew, delete it",
				at.Network, at.Interface, truncate.Text(cniMessage(err), events.MaxMessage/2)))
		case asked:
			d.events.Pod(pod, corev1.EventTypeNormal, events.CheckedNetwork, d.checkedMessage(at, found[r.Key()].unchecked))
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
	d.events.Pod(r.Pod, corev1.EventTypeWarning, events.FailedCheckNetwork, fmt.Sprintf(
		"network %s (%s) was not checked: %s", r.Attachment.Network, r.Attachment.Interface, why))
}
