package driver

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/multusstate"
	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/claimstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/events"
	"github.com/nadra-dev/nadra/pkg/driver/internal/networkstatus"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

// reporter reports on claims' status and by events. It only queues.
type reporter struct {
	*environment
	cfg         Config
	claimStatus *claimstatus.Writer
}

// prepareFailed puts the error on the claim's devices and on the pods that the claim is reserved
// for. Pods of a PodGroup are not known here; they have the kubelet's Event.
func (r *reporter) prepareFailed(claim *resourceapi.ResourceClaim, err error) {
	r.claimStatus.Set(refOf(claim), claimstatus.PrepareFailed(claim, err))
	for _, consumer := range claim.Status.ReservedFor {
		if !attachment.IsPod(consumer) {
			continue
		}
		r.events.Pod(consumerOf(claim, consumer), corev1.EventTypeWarning, reason.EventFailedPrepareNetwork, err.Error())
	}
}

// attached reports that a sandbox is attached: on every claim and by events, all of which wait until the caller calls
// send. One event lists all networks, because each event of a pod costs the API server a request. There is none if the
// sandbox misses a network by then.
func (r *reporter) attached(sandbox attachment.Sandbox, missing func(checkpoint.Record) bool) (send func()) {
	records := r.store.ForPod(sandbox.Pod.UID)
	byClaim := claimstatus.ByClaim(records, claimstatus.Attached)
	for claim, devices := range byClaim {
		r.claimStatus.Hold(claim, devices)
	}
	var added []string
	var unclaimed []attachment.Selection
	for _, record := range checkpoint.Networks(records) {
		if !record.Awaited(sandbox.ID) {
			continue // an edit has added it, and has its own event
		}
		added = append(added, addedMessage(record))
		if record.Unclaimed() {
			unclaimed = append(unclaimed, attachment.Selection{Network: record.Attachment.Network})
		}
	}
	return func() {
		for claim := range byClaim {
			r.claimStatus.Release(claim)
		}
		if slices.ContainsFunc(r.store.ForPod(sandbox.Pod.UID), missing) {
			return
		}
		if len(added) > 0 {
			r.events.Pod(sandbox.Pod, corev1.EventTypeNormal, reason.EventAddedInterface, addedMessages(added))
		}
		if len(unclaimed) > 0 {
			r.attachedWithoutClaim(sandbox.Pod, unclaimed, ". "+reason.WithoutClaim)
		}
	}
}

// attachedWithoutClaim reports networks of which the scheduler does not know. why ends the message.
func (r *reporter) attachedWithoutClaim(pod attachment.PodRef, unclaimed []attachment.Selection, why string) {
	r.events.Pod(pod, corev1.EventTypeNormal, reason.EventAttachedWithoutClaim, fmt.Sprintf(
		"%s attached by the annotation, without a claim: the scheduler has not checked that node %s has the network, and counts neither its device nor its addresses%s",
		listed(unclaimed), r.cfg.NodeName, why))
}

// added reports that an edit has added a network.
func (r *reporter) added(record checkpoint.Record) {
	r.events.Pod(record.Pod, corev1.EventTypeNormal, reason.EventAddedInterface, addedMessage(record))
	if record.Unclaimed() {
		r.attachedWithoutClaim(record.Pod, []attachment.Selection{{Network: record.Attachment.Network}}, "")
	}
}

// removed reports that an edit has removed a network.
func (r *reporter) removed(record checkpoint.Record) {
	r.events.Pod(record.Pod, corev1.EventTypeNormal, reason.EventRemovedInterface,
		fmt.Sprintf("Remove %s from %s: the annotation does not name it any more", record.Attachment.Interface, record.Attachment.Network))
}

// editFailed reports what an edit asks for and the pod does not get, or keeps.
func (r *reporter) editFailed(pod attachment.PodRef, removing bool, err error) {
	event := reason.EventFailedAddingInterface
	if removing {
		event = reason.EventFailedRemovingInterface
	}
	r.events.Pod(pod, corev1.EventTypeWarning, event, err.Error())
}

// addedMessages joins the texts of networks. It leaves out whole ones, and counts them, if an event has no room for all.
func addedMessages(added []string) string {
	text := strings.Join(added, "; ")
	for most := len(added) - 1; len(text) > events.MaxMessage && most > 0; most-- {
		text = strings.Join(words.ShortList(added, most), "; ")
	}
	return text
}

// addedMessage returns the text of a network in an AddedInterface event, which is Multus'.
func addedMessage(r checkpoint.Record) string {
	var result types100.Result
	_ = json.Unmarshal(r.Result, &result) // a result without addresses has the same text
	ips := []string{}
	for _, p := range cniexec.Addresses(&result) {
		ips = append(ips, p.String())
	}
	return fmt.Sprintf("Add %s %v from %s", r.Attachment.Interface, ips, r.Attachment.Network)
}

// attachFailed reports why a sandbox is not attached, finally or until the next try. If one
// network fails, the status of the pod's other networks names it.
func (r *reporter) attachFailed(sandbox attachment.Sandbox, err error) {
	failed := func(record checkpoint.Record) claimstatus.Device {
		return claimstatus.AttachFailed(record, attach.ErrorOf(record, err))
	}
	for claim, devices := range claimstatus.ByClaim(r.store.ForPod(sandbox.Pod.UID), failed) {
		r.claimStatus.Set(claim, devices)
	}
	r.events.Pod(sandbox.Pod, corev1.EventTypeWarning, reason.EventFailedAttachNetwork, err.Error())
}

// attachSlow reports that a sandbox is still being attached. A failed try has its own event.
func (r *reporter) attachSlow(ctx context.Context, j *job) {
	if !j.unfailed() {
		return
	}
	r.events.Pod(j.sandbox.Pod, corev1.EventTypeNormal, reason.EventAttachingNetwork,
		reason.AttachRunning.Text("attaching the networks takes longer than "+slowAttach.String()+"; the containers are held until it is done"))
	klog.FromContext(ctx).Info("Attaching takes long; the containers wait", "sandbox", j.sandbox.ID)
}

// delDeferred reports a DEL that the pod no longer waits for.
func (r *reporter) delDeferred(record checkpoint.Record, cause error) {
	r.events.Pod(record.Pod, corev1.EventTypeWarning, reason.EventFailedReleaseNetwork, fmt.Sprintf(
		"%v; what the plugin keeps for sandbox %.12s, such as addresses, stays taken until nadra's retries succeed", cause, record.Sandbox.ID))
}

// stateDamaged reports a file of the driver's state that could not be read.
func (r *reporter) stateDamaged(ctx context.Context, damaged checkpoint.Damaged) {
	klog.FromContext(ctx).Error(damaged.Err, "A file of the state could not be read and was put aside", "name", damaged.Name, "file", damaged.Path)
	r.events.Node(corev1.EventTypeWarning, reason.EventNetworkStateDamaged, words.Short(reason.StateDamaged.Text(fmt.Sprintf(
		"the state of claim %s, or of the pod with this UID, could not be read and was put aside as %s: %v; delete the claim's pod", damaged.Name, damaged.Path, damaged.Err)), events.MaxMessage))
}

// networkStatusLate reports that the pod's network-status is late. Nothing else shows this on
// a pod whose networks are attached.
func (r *reporter) networkStatusLate(pod attachment.PodRef, err error) {
	r.cfg.Metrics.NetworkStatusLate()
	why := "the API server has not answered"
	if err != nil {
		why = err.Error()
	}
	r.events.Pod(pod, corev1.EventTypeWarning, reason.EventNetworkStatusLate, reason.StatusNotStored.Text(fmt.Sprintf(
		"the networks are attached, but network-status is not stored after %s, and the containers wait for it: %s; nadra tries again", networkstatus.Late, why)))
}

// maxNetworkEvents limits the events of one refresh for one reason. The queue of the events has 1,000 places, also for
// those of pods, and a bond may have thousands of networks.
const maxNetworkEvents = 20

// networkHealth reports why this node withdraws networks, or that it offers them again: on each network, or once on the
// Node if there are more than maxNetworkEvents with the same reason.
func (r *reporter) networkHealth(ctx context.Context, changes []publish.HealthChange) {
	byReason := map[reason.Code][]publish.HealthChange{}
	for _, c := range changes {
		what := "Network is offered again"
		if c.Why != nil {
			what = "Network is withdrawn from this node"
		}
		klog.FromContext(ctx).Info(what, "network", c.Network, "reason", c.Why)
		byReason[reason.Of(c.Why)] = append(byReason[reason.Of(c.Why)], c)
	}
	for _, some := range byReason {
		together := 1
		if len(some) > maxNetworkEvents {
			slices.SortFunc(some, func(a, b publish.HealthChange) int { return cmp.Compare(a.Network.String(), b.Network.String()) })
			together = len(some)
		}
		for part := range slices.Chunk(some, together) {
			r.healthEvent(part)
		}
	}
}

// healthEvent sends an event about networks with the same reason: on the network, or on the Node for several.
func (r *reporter) healthEvent(changes []publish.HealthChange) {
	first, what := changes[0], "the network"
	if len(changes) > 1 {
		var networks []attachment.Selection
		for _, c := range changes {
			networks = append(networks, attachment.Selection{Network: c.Network})
		}
		what = fmt.Sprintf("%d %s", len(changes), listed(networks))
	}
	eventType, eventReason, message := corev1.EventTypeNormal, reason.EventNetworkAvailable, fmt.Sprintf("node %s offers %s again", r.cfg.NodeName, what)
	if first.Why != nil {
		others := "pods that have it keep it; "
		if reason.Of(first.Why) == reason.MasterMissing { // interfaces go with their master
			others = ""
		}
		eventType, eventReason, message = corev1.EventTypeWarning, reason.EventNetworkUnavailable, reason.Of(first.Why).Text(fmt.Sprintf(
			"node %s does not offer %s to new pods: %s; %sit is offered again when the cause is gone",
			r.cfg.NodeName, what, words.Short(reason.Message(first.Why), events.MaxMessage/2), others))
	}
	if len(changes) > 1 {
		r.events.Node(eventType, eventReason, message)
		return
	}
	r.events.Network(first.Network, first.UID, eventType, eventReason, message)
}

// poolProblem reports a problem with the definition of a resource pool, or that it is over.
func (r *reporter) poolProblem(ctx context.Context, problem string, exists bool) {
	logger := klog.FromContext(ctx)
	if !exists {
		logger.Info("A problem with a resource pool is over", "reason", problem)
		r.events.Node(corev1.EventTypeNormal, reason.EventResourcePoolServed, words.Short("no longer so: "+problem, events.MaxMessage))
		return
	}
	logger.Info("A resource pool is not served as it is defined", "reason", problem)
	r.events.Node(corev1.EventTypeWarning, reason.EventResourcePoolRefused, words.Short(problem, events.MaxMessage))
}

// adopted reports that nadra has taken over attachments of Multus.
func (r *reporter) adopted(ctx context.Context, sandboxes, networks int) {
	klog.FromContext(ctx).Info("Adopted sandboxes from Multus", "sandboxes", sandboxes, "networks", networks)
	r.events.Node(corev1.EventTypeNormal, reason.EventNetworksAdopted, fmt.Sprintf(
		"nadra has adopted %d sandboxes with %d networks that Multus attached, and detaches them when their pods end; the pods were not touched", sandboxes, networks))
}

// notAdopted reports a sandbox that Multus has attached and that nadra cannot adopt.
func (r *reporter) notAdopted(ctx context.Context, p multusstate.Problem) {
	klog.FromContext(ctx).Error(errors.New(p.Error), "A sandbox of Multus cannot be adopted; trying again", "sandbox", p.Sandbox, "pod", p.Pod)
	r.events.Node(corev1.EventTypeWarning, reason.EventFailedAdoptNetwork, words.Short(reason.NotAdopted.Text(fmt.Sprintf(
		"sandbox %.12s of pod %s: %s; nadra tries again", p.Sandbox, cmp.Or(p.Pod, "(unknown)"), p.Error)), events.MaxMessage))
}

// ownerChanged reports that the node's label has changed.
func (r *reporter) ownerChanged(ctx context.Context, o Ownership, owned bool) {
	label := o.Label + "=" + o.Value
	eventReason, message := reason.EventNetworksReleased, fmt.Sprintf(
		"label %s is gone: nadra withdraws its devices from this node; pods that have networks of nadra keep them until they end", label)
	if owned {
		eventReason, message = reason.EventNetworksOwned, fmt.Sprintf(
			"label %s is here: nadra publishes its devices on this node; pods that run are not touched", label)
	}
	klog.FromContext(ctx).Info("The owner of this node's networks has changed", "label", label, "owned", owned)
	r.events.Node(corev1.EventTypeNormal, eventReason, message)
}
