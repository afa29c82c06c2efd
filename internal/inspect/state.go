package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// What the driver writes into a claim's status (pkg/driver/status.go).
const (
	conditionReady      = "Ready"
	reasonAttached      = "Attached"
	reasonPrepareFailed = "PrepareFailed"
	reasonAttachFailed  = "AttachFailed"
	reasonCheckFailed   = "CheckFailed"
)

// readiness is the driver's condition of an allocated device; nil before it
// has said anything.
func readiness(s *resourceapi.AllocatedDeviceStatus) *metav1.Condition {
	if s == nil {
		return nil
	}
	for i := range s.Conditions {
		if s.Conditions[i].Type == conditionReady {
			return &s.Conditions[i]
		}
	}
	return nil
}

// stateOf says how far one network of a pod has come and, unless it is there,
// why it is not.
func stateOf(pod *corev1.Pod, w want) (state State, reason, message string) {
	switch ready := readiness(w.status); {
	case isOver(pod):
		return Ended, "PodEnded", fmt.Sprintf("the pod has ended (%s)", pod.Status.Phase)
	case w.entry == nil:
		return stateWithoutClaim(pod, w)
	case w.claim == nil && pod.DeletionTimestamp != nil:
		return Ended, "ClaimGone", "the pod is being deleted, and its claim is gone"
	case w.claim == nil:
		return Waiting, "NoClaim", fmt.Sprintf("the claim for %q is not there yet", w.entry.Name)
	case w.result == nil:
		return Waiting, "NotAllocated", notAllocated(pod)
	case ready != nil && ready.Status == metav1.ConditionTrue:
		return Attached, "", ""
	case ready != nil && ready.Reason == reasonCheckFailed:
		return CheckFailed, ready.Reason, ready.Message
	case ready != nil:
		return Failed, ready.Reason, ready.Message
	case !isReserved(w.claim, pod):
		return Allocated, "NotReserved", "the claim is not reserved for the pod"
	case pod.Spec.NodeName == "":
		return Allocated, "NotScheduled", "the pod is not bound to a node yet"
	}
	return Preparing, "", ""
}

func stateWithoutClaim(pod *corev1.Pod, w want) (state State, reason, message string) {
	switch {
	case w.reported != nil:
		return Multus, "", ""
	case pod.Spec.HostNetwork:
		return Unserved, "HostNetwork", "the pod uses the host's network, which gets no attachments"
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		return Waiting, "NoClaim", "the annotation asks for it, but no claim: it is Multus' to attach"
	}
	return Unserved, "NoClaim", "the annotation asks for it, but no claim, and network-status does not have it"
}

// isOver reports whether a pod has ended for good.
func isOver(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

func isReserved(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return r.Resource == "pods" && r.UID == pod.UID
	})
}

func notAllocated(pod *corev1.Pod) string {
	if c := podCondition(pod, corev1.PodScheduled); c != nil && c.Status == corev1.ConditionFalse && c.Message != "" {
		return c.Message
	}
	return "the scheduler has not allocated a device yet"
}

func podCondition(pod *corev1.Pod, kind corev1.PodConditionType) *corev1.PodCondition {
	for i := range pod.Status.Conditions {
		if pod.Status.Conditions[i].Type == kind {
			return &pod.Status.Conditions[i]
		}
	}
	return nil
}

// notes are where what the cluster says of one attachment does not agree.
func (x *index) notes(state State, w want, said bool) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r := w.result; r != nil && !x.unread[Slices] {
		if _, there := x.published[r.Pool+"/"+r.Device]; !there {
			note("device %s is not in any ResourceSlice any more", r.Device)
		}
	}
	if w.lost {
		note("the claim was made, but the pod's status does not name it")
	}
	if w.problem != nil && state != Failed {
		note("%v", w.problem)
	}
	attached := state == Attached || state == CheckFailed
	switch {
	case attached && w.reported == nil && said:
		note("the claim's status has it, network-status does not")
	case attached && w.reported == nil:
		note("the pod has no network-status")
	case attached && w.status.NetworkData != nil && !sameAddresses(w.status.NetworkData.IPs, w.reported.IPs):
		note("network-status has other addresses: %s", strings.Join(w.reported.IPs, ", "))
	case !attached && state != Multus && w.reported != nil:
		note("network-status has it, the claim's status does not")
	}
	return out
}

// sameAddresses compares the claim's, which have a prefix, with those of
// network-status.
func sameAddresses(claim, reported []string) bool {
	return slices.Equal(addresses(claim), addresses(reported))
}

func addresses(texts []string) []string {
	var out []string
	for _, t := range texts {
		text, _, _ := strings.Cut(t, "/")
		if a, err := netip.ParseAddr(text); err == nil {
			text = a.Unmap().String()
		}
		out = append(out, text)
	}
	slices.Sort(out)
	return out
}
