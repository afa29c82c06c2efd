package inspect

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

func (c *chain) claim(w want) Step {
	switch {
	case w.entry == nil:
		return c.withoutClaim(w)
	case c.in.NoDRA:
		return failed("the cluster does not serve resource.k8s.io/v1", OfCluster, "nadra needs Kubernetes 1.34 or later with Dynamic Resource Allocation on.")
	case w.claim == nil:
		return c.missingClaim(w)
	case w.lost:
		return failed(fmt.Sprintf("claim %s was made for the pod, but the pod's status does not name it", w.claim.Name), OfController,
			fmt.Sprintf("Give the name back: kubectl -n %s patch pod %s --subresource=status --type=strategic -p "+
				`'{"status":{"resourceClaimStatuses":[{"name":"%s","resourceClaimName":"%s"}]}}'`, c.pod.Namespace, c.pod.Name, w.entry.Name, w.claim.Name))
	case w.problem != nil:
		return failed(w.problem.Error(), OfManifest, fixManifest)
	}
	return ok(fmt.Sprintf("%s, request %s", w.claim.Name, w.request.name))
}

// withoutClaim is about a network that only the annotation asks for.
func (c *chain) withoutClaim(w want) Step {
	state, _, message := stateOf(c.pod, w)
	const convert = "Convert the workload (kubectl nadra convert) to have it served by nadra, or see that Multus runs on the pod's node."
	switch {
	case state == Multus:
		return notUsed("Multus has attached it" + listed(w.reported.IPs))
	case c.pod.Spec.HostNetwork:
		return notReached()
	case c.lastOf(eventNoClaim) != nil:
		return failed(c.lastOf(eventNoClaim).Message, OfConversion, "The message says what helps; the node refuses the pod rather than have it run without its networks.")
	case c.nodeIsOurs():
		return failed(message+"; node "+c.node+" is nadra's by its label, where Multus does not serve", OfConversion,
			"Convert the workload (kubectl nadra convert), or keep the pod off nadra's nodes.")
	case state == Unserved:
		return failed(message+": nobody serves it", OfConversion, convert)
	}
	if e := c.lastOf(eventKubeletSandbox); e != nil {
		return failed(e.Message, OfMultus, "The pod has no claim, so that nadra has no part in this: the message is Multus', or another plugin's.")
	}
	return waiting(message, OfConversion, convert)
}

func (c *chain) nodeIsOurs() bool {
	for _, n := range c.in.Nodes {
		if n.Name == c.node {
			return n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra
		}
	}
	return false
}

func (c *chain) missingClaim(w want) Step {
	if name := w.entry.ResourceClaimName; name != nil {
		return failed(fmt.Sprintf("ResourceClaim %s does not exist", *name), OfManifest, "Create the claim, or name a ResourceClaimTemplate instead.")
	}
	template := ptr.Deref(w.entry.ResourceClaimTemplateName, "")
	if c.x.templates[c.pod.Namespace+"/"+template] == nil {
		if c.x.unread[Templates] {
			return waiting("there is no claim; "+fmt.Sprintf(notAllowed, Templates)+" of the template", OfController, "Look whether ResourceClaimTemplate "+template+" exists.")
		}
		return failed(fmt.Sprintf("ResourceClaimTemplate %s does not exist, so that no claim can be made", template), OfManifest,
			"Apply the template; `kubectl nadra convert` writes it beside the workload. The pod need not be deleted.")
	}
	if e := c.lastOf(eventClaimFailed); e != nil {
		return failed(e.Message, OfController, "The message says what the API server refuses: a quota, or a mistake in the template.")
	}
	return waiting("the claim is not made yet from template "+template, OfController, "Wait some seconds. If it stays: does kube-controller-manager run, with its resourceclaim controller on?")
}

func (c *chain) allocation(w want) Step {
	unscheduled := c.unschedulable()
	switch {
	case w.entry == nil:
		return notUsed("")
	case w.claim == nil:
		return notReached()
	case w.result != nil:
		return ok(fmt.Sprintf("device %s of pool %s", w.result.Device, w.result.Pool))
	case c.failed(), c.gated():
		return notReached()
	case c.node != "":
		return failed("nothing is allocated, but the pod is bound to node "+c.node+": the scheduler was passed by", OfManifest,
			"Leave spec.nodeName out; a nodeSelector or affinity keeps the pod on a node.")
	case isAboutClaims(unscheduled):
		return failed(unscheduled, OfScheduler,
			"No node has a device free that the claim selects and that fits with the pod's other needs: the network's addresses or "+
				"attachments may be used up, or its nodes be excluded. The pod is scheduled by itself when that changes.")
	case unscheduled != "":
		return notReached()
	}
	return waiting("the scheduler has not allocated a device yet", OfScheduler, "Wait some seconds. If it stays: does the scheduler run?")
}

// unschedulable is why the scheduler has found no node; empty when it has not
// said so.
func (c *chain) unschedulable() string {
	s := podCondition(c.pod, corev1.PodScheduled)
	if s == nil || s.Status != corev1.ConditionFalse || c.gated() {
		return ""
	}
	return s.Message
}

// gated reports whether the scheduler is told not to look at the pod.
func (c *chain) gated() bool {
	s := podCondition(c.pod, corev1.PodScheduled)
	return s != nil && s.Status == corev1.ConditionFalse && s.Reason == corev1.PodReasonSchedulingGated
}

func isAboutClaims(message string) bool {
	m := strings.ToLower(message)
	return strings.Contains(m, "claim") || strings.Contains(m, "device")
}

func (c *chain) reservation(w want) Step {
	switch {
	case w.entry == nil:
		return notUsed("")
	case w.result == nil:
		return notReached()
	}
	var others []string
	for _, r := range w.claim.Status.ReservedFor {
		if r.UID != c.pod.UID {
			others = append(others, r.Name)
		}
	}
	switch {
	case len(others) > 0:
		return failed("the claim is shared with "+strings.Join(others, ", ")+"; a network attachment belongs to one pod", OfManifest,
			"Use a ResourceClaimTemplate, which gives each pod a claim of its own.")
	case isReserved(w.claim, c.pod):
		return ok("for this pod")
	case c.node != "":
		return failed("the claim is not reserved for the pod, which is bound to node "+c.node+": the scheduler was passed by", OfManifest,
			"Leave spec.nodeName out; a nodeSelector or affinity keeps the pod on a node.")
	}
	return waiting("the claim is allocated, but not reserved for the pod", OfScheduler, "Wait some seconds: it is reserved when the pod is bound.")
}

func (c *chain) scheduling() Step {
	switch {
	case c.node != "":
		return ok("bound to node " + c.node)
	case c.gated():
		return waiting("the pod has scheduling gates", OfManifest, "Whoever set spec.schedulingGates has to remove them.")
	case c.failed(), c.lacksClaims():
		return Step{State: StepNotReached, Detail: c.unschedulable()}
	case c.unschedulable() != "":
		return failed(c.unschedulable(), OfScheduler, "The scheduler names what keeps the pod off each node; it is not the networks.")
	}
	return waiting("the pod is not bound to a node yet", OfScheduler, "Wait some seconds. If it stays: does the scheduler run?")
}

// lacksClaims reports whether the pod waits for a claim to be made: then it is
// not the scheduler that keeps it from going on.
func (c *chain) lacksClaims() bool {
	return slices.ContainsFunc(c.wish.wants, func(w want) bool { return w.entry != nil && w.claim == nil })
}

// listed are addresses in words.
func listed(ips []string) string {
	if len(ips) == 0 {
		return ""
	}
	return ": " + strings.Join(ips, ", ")
}
