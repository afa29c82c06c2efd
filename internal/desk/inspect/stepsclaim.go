package inspect

import (
	"bytes"
	"cmp"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// claimSteps explains what happens to the pod's claims until the pod is bound to a node.
type claimSteps struct {
	*subject
	before *stepList
}

// claim explains whether the claim exists and can be read.
func (c claimSteps) claim(w want) Step {
	switch {
	case w.entry == nil:
		return c.withoutClaim(w)
	case c.in.NoDRA:
		return failed("the cluster does not serve resource.k8s.io/v1", reason.OfCluster, "nadra needs Kubernetes 1.34 or later with Dynamic Resource Allocation on.")
	case w.claim == nil:
		return c.missingClaim(w)
	case w.unlinked:
		return failed(fmt.Sprintf("claim %s was created for the pod, but the pod's status does not name it", w.claim.Name), reason.OfController,
			fmt.Sprintf("Restore the name: kubectl -n %s patch pod %s --subresource=status --type=strategic -p "+
				`'{"status":{"resourceClaimStatuses":[{"name":"%s","resourceClaimName":"%s"}]}}'`, c.pod.Namespace, c.pod.Name, w.entry.Name, w.claim.Name))
	case w.problem != nil:
		return explain(w.problem.Error(), nil, unexplained)
	}
	return ok(fmt.Sprintf("%s, request %s", w.claim.Name, w.request.name))
}

// withoutClaim explains a network that only the annotation asks for.
func (c claimSteps) withoutClaim(w want) Step {
	state, _, message := stateOf(c.pod, w)
	const convert = "Convert the workload (kubectl nadra convert) to have nadra serve it, or make sure that Multus runs on the pod's node."
	switch {
	case state == Attached:
		return ok(withoutClaim + ". " + reason.WithoutClaim)
	case state == Multus:
		return notUsed("Multus has attached it" + listed(w.reported.IPs))
	case c.pod.Spec.HostNetwork:
		return notReached()
	case state == Unserved && c.editFailed() != nil:
		return explain(c.editFailed().Message, ofPlugins, unexplained)
	case c.events.last(reason.EventFailedNoClaim) != nil:
		return explain(c.events.last(reason.EventFailedNoClaim).Message, nil, unexplained)
	case slices.Contains(c.ownedNodes(), c.node) && c.driverAway() != nil:
		return *c.driverAway()
	case slices.Contains(c.ownedNodes(), c.node):
		return failed(message+"; node "+c.node+" is nadra's by its label, and Multus does not serve it", reason.OfConversion,
			"Convert the workload (kubectl nadra convert), or keep the pod off nadra's nodes; "+reason.LateAnnotation+".")
	case state == Unserved:
		return failed(message+": nobody serves it", reason.OfConversion, convert)
	}
	if e := c.events.last(eventKubeletSandbox); e != nil {
		return failed(e.Message, reason.OfMultus, "The pod has no claim, so nadra is not involved: the message comes from Multus or another plugin.")
	}
	return waiting(message, reason.OfConversion, convert)
}

// editFailed returns the newest event about an edit of the running pod's annotation, if it says that a
// network was not added, or nil.
func (c claimSteps) editFailed() *corev1.Event {
	e := c.events.last(reason.EventFailedAddingInterface, reason.EventAddedInterface)
	if e == nil || e.Reason == reason.EventAddedInterface {
		return nil
	}
	return e
}

// missingClaim explains why a claim does not exist.
func (c claimSteps) missingClaim(w want) Step {
	if name := w.entry.ResourceClaimName; name != nil {
		return failed(fmt.Sprintf("ResourceClaim %s does not exist", *name), reason.OfManifest, "Create the claim, or name a ResourceClaimTemplate instead.")
	}
	template := ptr.Deref(w.entry.ResourceClaimTemplateName, "")
	if c.x.templates[c.pod.Namespace+"/"+template] == nil {
		if c.x.unread[Templates] {
			return waiting("there is no claim; "+fmt.Sprintf(notAllowed, Templates)+" about the template", reason.OfController, "Check that ResourceClaimTemplate "+template+" exists.")
		}
		if e := c.events.last(reason.EventTemplateMissing); e != nil {
			return explain(e.Message, nil, advice{})
		}
		return failed(fmt.Sprintf("ResourceClaimTemplate %s does not exist, so no claim can be created", template), reason.OfManifest,
			"Apply the template, which `kubectl nadra convert` writes next to the workload. Keep the pod.")
	}
	if e := c.events.last(eventClaimFailed); e != nil {
		return failed(e.Message, reason.OfController, "Follow the API server's message: a quota, or a mistake in the template.")
	}
	return waiting("the claim of template "+template+" is not created yet", reason.OfController, "Wait some seconds. If it stays, check that kube-controller-manager runs with its resourceclaim controller.")
}

// allocation explains whether the scheduler has allocated a device.
func (c claimSteps) allocation(w want) Step {
	unscheduled := c.unschedulable()
	switch {
	case w.entry == nil:
		return notUsed("")
	case w.claim == nil:
		return notReached()
	case w.result != nil:
		return ok(fmt.Sprintf("device %s of pool %s", w.result.Device, w.result.Pool))
	case c.before.failed(), c.gated():
		return notReached()
	case c.node != "":
		return c.bypassed("nothing is allocated")
	case isAboutClaims(unscheduled):
		return c.unallocated(w, unscheduled)
	case unscheduled != "":
		return notReached()
	}
	return c.unscheduled(c.scheduler() + " has not allocated a device yet")
}

// scheduler names the pod's scheduler.
func (c claimSteps) scheduler() string {
	if c.usualScheduler() {
		return "the scheduler"
	}
	return "scheduler " + c.pod.Spec.SchedulerName
}

// usualScheduler reports whether kube-scheduler is to schedule the pod.
func (c claimSteps) usualScheduler() bool {
	return c.pod.Spec.SchedulerName == "" || c.pod.Spec.SchedulerName == corev1.DefaultSchedulerName
}

// unscheduled returns the step of a pod of which the scheduler has said nothing.
func (c claimSteps) unscheduled(what string) Step {
	if c.usualScheduler() {
		return waiting(what, reason.OfScheduler, "Wait some seconds. If it stays, check that the scheduler runs.")
	}
	return waiting(what, reason.OfScheduler, "Wait some seconds. If it stays, check that "+c.scheduler()+" (spec.schedulerName) runs, and that its version allocates claims.")
}

// bypassed returns the step of a pod that was bound to a node without its claim: by spec.nodeName of its manifest, or by
// a scheduler that does not know claims.
func (c claimSteps) bypassed(what string) Step {
	if c.boundByScheduler() {
		return failed(what+", but "+c.scheduler()+" has bound the pod to node "+c.node+": it does not know claims", reason.OfScheduler,
			"Recreate the pod with a schedulerName whose scheduler allocates claims, or switch on DynamicResourceAllocation in "+c.scheduler()+".")
	}
	return failed(what+", but the pod is bound to node "+c.node+": it bypassed the scheduler", reason.OfManifest,
		"Remove spec.nodeName; use a nodeSelector or affinity to keep the pod on a node.")
}

// boundByScheduler reports whether a scheduler has set spec.nodeName. A manifest that sets the field has a manager of it, and
// a binding has none. Where nobody manages anything, the name of another scheduler decides.
func (c claimSteps) boundByScheduler() bool {
	if len(c.pod.ManagedFields) == 0 {
		return !c.usualScheduler()
	}
	return !slices.ContainsFunc(c.pod.ManagedFields, func(m metav1.ManagedFieldsEntry) bool {
		return m.FieldsV1 != nil && bytes.Contains(m.FieldsV1.GetRawBytes(), []byte(`"f:nodeName"`))
	})
}

// unallocated explains why the scheduler finds no device for a claim, by its message.
func (c claimSteps) unallocated(w want, message string) Step {
	if text, found := lookup(message, ofScheduler); found {
		return failed(message, text.owner, text.remedy)
	}
	if u, full := c.full(w); full {
		remedy := "Wait until one of these pods ends, or have more nodes offer the network. The scheduler binds the pod when that changes."
		if u.addresses {
			remedy = "The range is full: widen it in the NetworkAttachmentDefinition's IPAM, or delete pods that no longer need an address. The scheduler binds the pod when that changes."
		}
		return failed(u.String()+"; "+c.scheduler()+" says: "+message, reason.OfNetwork, remedy)
	}
	if slices.ContainsFunc(c.wish.wants, func(other want) bool { _, full := c.full(other); return full }) {
		return anotherFails
	}
	remedy := "No node has a free device that the claim selects and that fits the pod's other needs: its nodes may be excluded"
	if c.x.unread[Slices] || c.x.unread[Claims] {
		remedy += ", or the network's addresses or attachments used up (you may not read all slices and claims)"
	}
	return failed(message, reason.OfScheduler, remedy+". "+alsoNeeds(w.claim)+"The scheduler binds the pod when that changes.")
}

// full returns how much of a network is in use, and whether that is all while the claim has no device of it.
func (c claimSteps) full(w want) (u usage, is bool) {
	if w.network == nil || w.claim == nil || w.result != nil || c.x.unread[Slices] {
		return u, false
	}
	n, _, _ := networkSteps{c.subject}.network(w) // without a pool if it cannot be read
	u, limited := c.x.usageOf(*w.network, n.ResourceName)
	return u, limited && u.used >= u.room
}

// alsoNeeds names what else a claim asks for, for which the scheduler may find no device.
func alsoNeeds(claim *resourceapi.ResourceClaim) string {
	var others []string
	for _, r := range claim.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		if _, network := attachment.ClassNetwork(r.Exactly.DeviceClassName); !network && r.Exactly.DeviceClassName != v1alpha1.DriverName {
			others = append(others, "a device of class "+r.Exactly.DeviceClassName+" (request "+r.Name+")")
		}
	}
	for _, one := range claim.Spec.Devices.Constraints {
		of := "all requests"
		if len(one.Requests) > 0 {
			of = "requests " + strings.Join(one.Requests, ", ")
		}
		attribute := cmp.Or(ptr.Deref(one.MatchAttribute, ""), ptr.Deref(one.DistinctAttribute, ""))
		others = append(others, "devices whose "+string(attribute)+" suits the constraint on "+of)
	}
	if len(others) == 0 {
		return ""
	}
	return "The claim also needs " + strings.Join(others, ", and ") + ". "
}

// unschedulable returns the scheduler's reason for finding no node, or "".
func (c claimSteps) unschedulable() string {
	s := podCondition(c.pod, corev1.PodScheduled)
	if s == nil || s.Status != corev1.ConditionFalse || c.gated() {
		return ""
	}
	return s.Message
}

// gated reports whether the pod has scheduling gates.
func (c claimSteps) gated() bool {
	s := podCondition(c.pod, corev1.PodScheduled)
	return s != nil && s.Status == corev1.ConditionFalse && s.Reason == corev1.PodReasonSchedulingGated
}

// reservation explains whether the claim is reserved for the pod.
func (c claimSteps) reservation(w want) Step {
	switch {
	case w.entry == nil:
		return notUsed("")
	case w.result == nil:
		return notReached()
	}
	var others []string
	for _, r := range w.claim.Status.ReservedFor {
		if attachment.IsPodGroup(r) {
			return failed("the claim is shared by the pods of PodGroup "+r.Name+"; a network attachment belongs to one pod", reason.OfManifest,
				"Remove the claim from the PodGroup's spec.resourceClaims, so that the ResourceClaimTemplate gives each pod its own claim.")
		}
		if r.UID != c.pod.UID {
			others = append(others, r.Name)
		}
	}
	switch {
	case len(others) > 0:
		return failed("the claim is shared with "+strings.Join(others, ", ")+"; a network attachment belongs to one pod", reason.OfManifest,
			"Use a ResourceClaimTemplate, which gives each pod its own claim.")
	case isReserved(w.claim, c.pod):
		return ok("for this pod")
	case c.node != "":
		return c.bypassed("the claim is not reserved for the pod")
	}
	return waiting("the claim is allocated, but not reserved for the pod", reason.OfScheduler, "Wait some seconds: the scheduler reserves it when it binds the pod.")
}

// scheduling explains whether the pod is bound to a node.
func (c claimSteps) scheduling() Step {
	switch {
	case c.node != "":
		return ok("bound to node " + c.node)
	case c.gated():
		return waiting("the pod has scheduling gates", reason.OfManifest, "Remove spec.schedulingGates, or wait for the controller that set them.")
	case c.before.failed(), c.lacksClaims():
		return Step{State: StepNotReached, Detail: c.unschedulable()}
	case c.unschedulable() != "":
		return failed(c.unschedulable(), reason.OfScheduler, "The networks are not the cause: follow the scheduler's message.")
	}
	return c.unscheduled("the pod is not bound to a node yet")
}

// lacksClaims reports whether a claim of the pod does not exist yet, for which the
// scheduler waits.
func (c claimSteps) lacksClaims() bool {
	return slices.ContainsFunc(c.wish.wants, func(w want) bool { return w.entry != nil && w.claim == nil })
}

// listed joins addresses, behind a colon if there are any.
func listed(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ": " + strings.Join(ips, ", ")
}
