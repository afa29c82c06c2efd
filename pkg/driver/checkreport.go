package driver

import (
	"context"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
)

// reportAll reports the results for all attachments of a pod: on every claim, unless
// it shows them already, and by events. A CHECK that succeeds is an event only for an owner
// who has requested it. The pod is locked.
func (c *checker) reportAll(ctx context.Context, pod attachment.PodRef, records []checkpoint.Record, results map[checkpoint.Key]checkResult, requested bool) {
	state := func(r checkpoint.Record) claimstatus.Device {
		if result := results[r.Key()]; result.err != nil {
			return claimstatus.CheckFailed(r, result.what())
		}
		return claimstatus.Attached(r)
	}
	removed := checkpoint.Where(c.store.ForPod(pod.UID), func(r checkpoint.Record) bool { return r.Removed })
	for claim, devices := range claimstatus.ByClaim(append(removed, records...), state) {
		c.claimStatus.Repair(claim, devices)
	}
	for _, r := range records {
		at := r.Attachment
		switch result := results[r.Key()]; {
		case result.silent:
		case result.lost:
			operations.LoggerOf(ctx, r).Info("An attachment is not as it was made", "reason", result.what())
			c.events.Pod(pod, corev1.EventTypeWarning, reason.EventFailedCheckNetwork, fmt.Sprintf(
				"network %s (%s) is not as it was attached: %s; the pod is left as it is: to have it attached again, delete it",
				at.Network, at.Interface, words.Short(result.what(), events.MaxMessage/2)))
		case result.err != nil:
			operations.LoggerOf(ctx, r).Info("CHECK of an attachment fails", "reason", result.what())
			c.events.Pod(pod, corev1.EventTypeWarning, reason.EventFailedCheckNetwork, fmt.Sprintf(
				"network %s (%s): %s; the pod is left as it is",
				at.Network, at.Interface, words.Short(result.what(), events.MaxMessage/2)))
		case result.doubt != nil:
			operations.LoggerOf(ctx, r).Info("CHECK of an attachment fails, and proves nothing", "reason", result.why+": "+cniexec.Message(result.doubt))
			if requested {
				c.events.Pod(pod, corev1.EventTypeNormal, reason.EventCheckedNetwork, fmt.Sprintf(
					"network %s (%s): its CHECK fails, and %s, so it proves nothing: %s",
					at.Network, at.Interface, result.why, words.Short(cniexec.Message(result.doubt), events.MaxMessage/2)))
			}
		case requested:
			c.events.Pod(pod, corev1.EventTypeNormal, reason.EventCheckedNetwork, c.checkedMessage(at, result.unchecked))
		}
	}
}

// what returns what is not as it was made, for a message.
func (r checkResult) what() string {
	if r.lost {
		return cniexec.Message(r.err)
	}
	return "its CHECK fails: " + cniexec.Message(r.err)
}

// checkLost reports what a pod's attachments have lost, or have again, since the latest report.
func (c *checker) checkLost(ctx context.Context, pod attachment.PodRef) {
	c.do(ctx, pod, func(ctx context.Context) error {
		records := c.recordsOf(pod)
		if c.watch.deleting(pod) || slices.ContainsFunc(records, c.uncheckable) {
			return nil
		}
		results := map[checkpoint.Key]checkResult{}
		for _, r := range records {
			lost, news := c.takeNews(r)
			results[r.Key()] = checkResult{err: c.latest(r), lost: lost, silent: !news}
		}
		c.reportAll(ctx, pod, records, results, true)
		return nil
	})
}

// checkedMessage returns the text of the event for a CHECK that has succeeded.
func (c *checker) checkedMessage(at attachment.Attachment, unchecked []string) string {
	if len(unchecked) > 0 {
		return fmt.Sprintf("network %s (%s) could be checked in part at most: plugin %s, or its IPAM plugin, implements no CHECK",
			at.Network, at.Interface, strings.Join(unchecked, ", "))
	}
	if !c.operations.HasCheck(at) {
		return fmt.Sprintf("network %s (%s) has no CHECK: its cniVersion is before 0.4.0, or its configuration sets disableCheck", at.Network, at.Interface)
	}
	return fmt.Sprintf("network %s (%s) is as it was attached", at.Network, at.Interface)
}

// reportUncheckable reports to an owner who has requested a CHECK that nothing can be checked.
func (c *checker) reportUncheckable(r checkpoint.Record) {
	why := "its sandbox is gone"
	if r.Phase != checkpoint.Attached {
		why = "it is not attached, phase " + string(r.Phase)
	}
	c.events.Pod(r.Pod, corev1.EventTypeWarning, reason.EventFailedCheckNetwork, fmt.Sprintf(
		"network %s (%s) was not checked: %s", r.Attachment.Network, r.Attachment.Interface, why))
}
