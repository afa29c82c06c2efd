package inspect

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// claim explains whether the claim exists and can be read.
func (s *subject) claim(w want) Step {
	switch {
	case w.entry == nil:
		return s.withoutClaim(w)
	case s.in.NoDRA:
		return failed("the cluster does not serve resource.k8s.io/v1", reason.OfCluster,
			"nadra needs Kubernetes 1.34 or later with Dynamic Resource Allocation on.")
	case w.claim == nil:
		return s.missingClaim(w)
	case w.unlinked:
		return failed(fmt.Sprintf("claim %s was created for the pod, but the pod's status does not name it", w.claim.Name),
			reason.OfController,
			fmt.Sprintf("Restore the name: kubectl -n %s patch pod %s --subresource=status --type=strategic -p "+
				`'{"status":{"resourceClaimStatuses":[{"name":"%s","resourceClaimName":"%s"}]}}'`, s.pod.Namespace, s.pod.Name, w.entry.Name, w.claim.Name))
	case w.problem != nil:
		return explain(w.problem.Error(), nil, unexplained)
	}
	return ok(fmt.Sprintf("%s, request %s", w.claim.Name, w.request.Name))
}

// withoutClaim explains a network that only the annotation asks for.
func (s *subject) withoutClaim(w want) Step {
	state, _, message := stateOf(s.pod, w)
	const convert = "Convert the workload (kubectl nadra convert) to have nadra serve it, or make sure that Multus runs on the pod's node."
	switch {
	case state == Attached:
		return ok(withoutClaim + ". " + reason.WithoutClaim)
	case state == Multus:
		return notUsed("Multus has attached it" + listed(w.reported.IPs))
	case s.pod.Spec.HostNetwork:
		return notReached()
	case state == Unserved && s.editFailed() != nil:
		return explain(s.editFailed().Message, ofPlugins, unexplained)
	case s.events.last(reason.EventFailedNoClaim) != nil:
		return explain(s.events.last(reason.EventFailedNoClaim).Message, nil, unexplained)
	case slices.Contains(s.ownedNodes(), s.node) && s.driverAway() != nil:
		return *s.driverAway()
	case slices.Contains(s.ownedNodes(), s.node):
		return failed(message+"; node "+s.node+" is nadra's by its label, and Multus does not serve it", reason.OfConversion,
			"Convert the workload (kubectl nadra convert), or keep the pod off nadra's nodes; "+reason.LateAnnotation+".")
	case state == Unserved:
		return failed(message+": nobody serves it", reason.OfConversion, convert)
	}
	if e := s.events.last(eventKubeletSandbox); e != nil {
		return failed(e.Message, reason.OfMultus,
			"The pod has no claim, so nadra is not involved: the message comes from Multus or another plugin.")
	}
	return waiting(message, reason.OfConversion, convert)
}

// editFailed returns the newest event about an edit of the running pod's annotation, if it says that a
// network was not added, or nil.
func (s *subject) editFailed() *corev1.Event {
	e := s.events.last(reason.EventFailedAddingInterface, reason.EventAddedInterface)
	if e == nil || e.Reason == reason.EventAddedInterface {
		return nil
	}
	return e
}

// missingClaim explains why a claim does not exist.
func (s *subject) missingClaim(w want) Step {
	if name := w.entry.ResourceClaimName; name != nil {
		return failed(fmt.Sprintf("ResourceClaim %s does not exist", *name), reason.OfManifest,
			"Create the claim, or name a ResourceClaimTemplate instead.")
	}
	template := ptr.Deref(w.entry.ResourceClaimTemplateName, "")
	if s.x.templates[s.pod.Namespace+"/"+template] == nil {
		if s.x.unread[Templates] {
			return waiting("there is no claim; "+fmt.Sprintf(notAllowed, Templates)+" about the template",
				reason.OfController, "Check that ResourceClaimTemplate "+template+" exists.")
		}
		if e := s.events.last(reason.EventTemplateMissing); e != nil {
			return explain(e.Message, nil, advice{})
		}
		return failed(fmt.Sprintf("ResourceClaimTemplate %s does not exist, so no claim can be created", template), reason.OfManifest,
			"Apply the template, which `kubectl nadra convert` writes next to the workload. Keep the pod.")
	}
	if e := s.events.last(eventClaimFailed); e != nil {
		return failed(e.Message, reason.OfController, "Follow the API server's message: a quota, or a mistake in the template.")
	}
	return waiting("the claim of template "+template+" is not created yet", reason.OfController,
		"Wait some seconds. If it stays, check that kube-controller-manager runs with its resourceclaim controller.")
}

// allocation explains whether the scheduler has allocated a device.
func (s *subject) allocation(w want) Step {
	unscheduled := s.unschedulable()
	switch {
	case w.entry == nil:
		return notUsed("")
	case w.claim == nil:
		return notReached()
	case w.result != nil:
		if unscheduled != "" {
			if away := s.allocatedAway(w); away != nil {
				return *away
			}
		}
		return ok(fmt.Sprintf("device %s of pool %s", w.result.Device, w.result.Pool))
	case s.before.failed(), s.gated():
		return notReached()
	case s.node != "":
		return s.bypassed("nothing is allocated")
	case isAboutClaims(unscheduled):
		return s.unallocated(w, unscheduled)
	case unscheduled != "":
		return notReached()
	}
	return s.unscheduled(s.scheduler() + " has not allocated a device yet")
}

// allocatedAway returns a step that fails if no node with the allocated device has a driver that is ready, so that the
// scheduler finds no node for the pod; or nil if one has, or that is not known.
func (s *subject) allocatedAway(w want) *Step {
	nodes := s.x.published[w.result.Pool+"/"+w.result.Device].nodes
	mayHave := func(node string) bool { return node == "" || s.in.Drivers == nil || s.in.Drivers[node] }
	if s.x.unread[Slices] || slices.ContainsFunc(nodes, mayHave) {
		return nil
	}
	away := "no node publishes it any more: its node is gone, or nadra's driver does not run there"
	if len(nodes) > 0 {
		away = "nadra's driver is not ready on " + some(nodes)
	}
	step := failed(fmt.Sprintf("device %s of pool %s is allocated, and %s; %s says: %s",
		w.result.Device, w.result.Pool, away, s.scheduler(), s.unschedulable()),
		reason.OfCluster, noDriver+" If the node is gone for good, delete the pod, so that the next one gets another claim.")
	return &step
}

// scheduler names the pod's scheduler.
func (s *subject) scheduler() string {
	if s.usualScheduler() {
		return "the scheduler"
	}
	return "scheduler " + s.pod.Spec.SchedulerName
}

// usualScheduler reports whether kube-scheduler is to schedule the pod.
func (s *subject) usualScheduler() bool {
	return s.pod.Spec.SchedulerName == "" || s.pod.Spec.SchedulerName == corev1.DefaultSchedulerName
}

// unscheduled returns the step of a pod of which the scheduler has said nothing.
func (s *subject) unscheduled(what string) Step {
	if s.usualScheduler() {
		return waiting(what, reason.OfScheduler, "Wait some seconds. If it stays, check that the scheduler runs.")
	}
	return waiting(what, reason.OfScheduler,
		"Wait some seconds. If it stays, check that "+s.scheduler()+" (spec.schedulerName) runs, and that its version allocates claims.")
}

// bypassed returns the step of a pod that was bound to a node without its claim: by spec.nodeName of its manifest, or by
// a scheduler that does not know claims.
func (s *subject) bypassed(what string) Step {
	if s.boundByScheduler() {
		return failed(what+", but "+s.scheduler()+" has bound the pod to node "+s.node+": it does not know claims", reason.OfScheduler,
			"Recreate the pod with a schedulerName whose scheduler allocates claims, or switch on DynamicResourceAllocation in "+s.scheduler()+".")
	}
	return failed(what+", but the pod is bound to node "+s.node+": it bypassed the scheduler", reason.OfManifest,
		"Remove spec.nodeName; use a nodeSelector or affinity to keep the pod on a node.")
}

// boundByScheduler reports whether a scheduler has set spec.nodeName. Where nobody manages anything, the name of another
// scheduler decides.
func (s *subject) boundByScheduler() bool {
	if len(s.pod.ManagedFields) == 0 {
		return !s.usualScheduler()
	}
	return !NamesNode(s.pod)
}

// NamesNode reports whether a client has written spec.nodeName of a pod: the fields of clients have managers, and what
// the scheduler binds has none.
func NamesNode(pod metav1.Object) bool {
	return slices.ContainsFunc(pod.GetManagedFields(), func(m metav1.ManagedFieldsEntry) bool {
		var fields struct {
			Spec map[string]json.RawMessage `json:"f:spec"`
		}
		if m.FieldsV1 == nil || json.Unmarshal(m.FieldsV1.GetRawBytes(), &fields) != nil {
			return false
		}
		_, names := fields.Spec["f:nodeName"]
		return names
	})
}

// unallocated explains why the scheduler finds no device for a claim, by its message.
func (s *subject) unallocated(w want, message string) Step {
	if text, found := lookup(message, ofScheduler); found {
		return failed(message, text.owner, text.remedy)
	}
	if u := s.usage(w); u.full {
		remedy := "Wait until one of these pods ends, or have more nodes offer the network. The scheduler binds the pod when that changes."
		if u.addresses {
			remedy = "The range is full: widen it in the NetworkAttachmentDefinition's IPAM, or delete pods that no longer need an address. The scheduler binds the pod when that changes."
		}
		return failed(u.String()+"; "+s.scheduler()+" says: "+message, reason.OfNetwork, remedy)
	}
	if slices.ContainsFunc(s.wish.wants, func(other want) bool { return s.usage(other).full }) {
		return anotherFails
	}
	remedy := "No node has a free device that the claim selects and that fits the pod's other needs: its nodes may be excluded"
	if s.x.unread[Slices] || s.x.unread[Claims] {
		remedy += ", or the network's addresses or attachments used up (you may not read all slices and claims)"
	}
	return failed(message, reason.OfScheduler, remedy+". "+alsoNeeds(w.claim)+"The scheduler binds the pod when that changes.")
}

// usage returns how much of a network is in use, if the claim has no device of it.
func (s *subject) usage(w want) usage {
	if w.network == nil || w.claim == nil || w.result != nil || s.x.unread[Slices] {
		return usage{}
	}
	u, known := s.usages[*w.network]
	if !known {
		n, _, _ := s.network(w) // without a pool if it cannot be read
		u = s.x.usageOf(*w.network, n.ResourceName)
		s.usages[*w.network] = u
	}
	return u
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
func (s *subject) unschedulable() string {
	scheduled := podCondition(s.pod, corev1.PodScheduled)
	if scheduled == nil || scheduled.Status != corev1.ConditionFalse || s.gated() {
		return ""
	}
	return scheduled.Message
}

// gated reports whether the pod has scheduling gates.
func (s *subject) gated() bool {
	scheduled := podCondition(s.pod, corev1.PodScheduled)
	return scheduled != nil && scheduled.Status == corev1.ConditionFalse && scheduled.Reason == corev1.PodReasonSchedulingGated
}

// reservation explains whether the claim is reserved for the pod.
func (s *subject) reservation(w want) Step {
	switch {
	case w.entry == nil:
		return notUsed("")
	case w.result == nil:
		return notReached()
	}
	var others []string
	for _, r := range w.claim.Status.ReservedFor {
		if attachment.IsPodGroup(r) {
			return failed("the claim is shared by the pods of PodGroup "+r.Name+"; a network attachment belongs to one pod",
				reason.OfManifest,
				"Remove the claim from the PodGroup's spec.resourceClaims, so that the ResourceClaimTemplate gives each pod its own claim.")
		}
		if r.UID != s.pod.UID {
			others = append(others, r.Name)
		}
	}
	switch {
	case len(others) > 0:
		return failed("the claim is shared with "+strings.Join(others, ", ")+"; a network attachment belongs to one pod", reason.OfManifest,
			"Use a ResourceClaimTemplate, which gives each pod its own claim.")
	case isReserved(w.claim, s.pod):
		return ok("for this pod")
	case s.node != "":
		return s.bypassed("the claim is not reserved for the pod")
	}
	return waiting("the claim is allocated, but not reserved for the pod", reason.OfScheduler,
		"Wait some seconds: the scheduler reserves it when it binds the pod.")
}

// scheduling explains whether the pod is bound to a node.
func (s *subject) scheduling() Step {
	switch {
	case s.node != "":
		return ok("bound to node " + s.node)
	case s.gated():
		return waiting("the pod has scheduling gates", reason.OfManifest,
			"Remove spec.schedulingGates, or wait for the controller that set them.")
	case s.before.failed(), s.lacksClaims():
		return Step{State: StepNotReached, Detail: s.unschedulable()}
	case s.unschedulable() != "" && admission.KeepsOff(s.pod.Spec.Affinity):
		return failed(s.unschedulable(), reason.OfCluster,
			"The pod is Multus', so nadra's webhook keeps it from nadra's nodes, and no other node takes it: "+
				"label its namespace "+v1alpha1.OwnerLabel+"="+v1alpha1.OwnerNadra+" to have it served by nadra, and recreate the pod.")
	case s.unschedulable() != "":
		return failed(s.unschedulable(), reason.OfScheduler, "The networks are not the cause: follow the scheduler's message.")
	}
	return s.unscheduled("the pod is not bound to a node yet")
}

// lacksClaims reports whether a claim of the pod does not exist yet, for which the
// scheduler waits.
func (s *subject) lacksClaims() bool {
	return slices.ContainsFunc(s.wish.wants, func(w want) bool { return w.entry != nil && w.claim == nil })
}

// listed joins addresses, behind a colon if there are any.
func listed(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ": " + strings.Join(ips, ", ")
}
