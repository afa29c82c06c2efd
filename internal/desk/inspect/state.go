package inspect

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// readiness returns the driver's condition of an allocated device, or nil if the driver
// has written none yet.
func readiness(s *resourceapi.AllocatedDeviceStatus) *metav1.Condition {
	if s == nil {
		return nil
	}
	return meta.FindStatusCondition(s.Conditions, reason.ConditionReady)
}

// stateOf returns the state of one network of a pod, and why it is not attached.
func stateOf(pod *corev1.Pod, w want) (state State, why, message string) {
	switch ready := readiness(w.status); {
	case attachment.IsOver(pod):
		return Ended, "PodEnded", fmt.Sprintf("the pod has ended (%s)", pod.Status.Phase)
	case w.entry == nil:
		return stateWithoutClaim(pod, w)
	case w.claim == nil && pod.DeletionTimestamp != nil:
		return Ended, "ClaimGone", "the pod is being deleted, and its claim is gone"
	case w.claim == nil:
		return Waiting, string(reason.NoClaim), fmt.Sprintf("the claim for %q does not exist yet", w.entry.Name)
	case w.result == nil:
		return Waiting, "NotAllocated", notAllocated(pod)
	case ready != nil && ready.Status == metav1.ConditionTrue:
		return Attached, "", ""
	case ready != nil && ready.Reason == reason.ConditionCheckFailed:
		return CheckFailed, ready.Reason, ready.Message
	case w.removed():
		return Removed, ready.Reason, ready.Message
	case ready != nil:
		return Failed, ready.Reason, ready.Message
	case !isReserved(w.claim, pod):
		return Allocated, "NotReserved", "the claim is not reserved for the pod"
	case pod.Spec.NodeName == "":
		return Allocated, "NotScheduled", "the pod is not bound to a node yet"
	case runs(pod):
		return Attached, "", ""
	}
	return Preparing, "", ""
}

// withoutClaim is the note on an attachment that nadra has made by the pod's annotation.
const withoutClaim = "attached by the annotation, without a claim: the scheduler does not know of it"

// stateWithoutClaim returns the state of a network that only the annotation asks for. network-status says whether it is
// attached, and attachment.AttacherOf by whom.
func stateWithoutClaim(pod *corev1.Pod, w want) (state State, why, message string) {
	switch {
	case w.reported != nil && attachment.AttacherOf(pod, false) == attachment.OfNadra:
		return Attached, "", ""
	case w.reported != nil:
		return Multus, "", ""
	case pod.Spec.HostNetwork:
		return Unserved, string(reason.HostNetwork), "the pod uses the host's network, which gets no attachments"
	case pod.Status.Phase == corev1.PodPending || pod.Status.Phase == "":
		return Waiting, string(reason.NoClaim), "the annotation asks for it, but no claim: Multus attaches it"
	}
	return Unserved, string(reason.NoClaim), "the annotation asks for it, but no claim, and network-status does not list it"
}

// runs reports whether a container of the pod runs. The gate holds containers until the pod's
// networks are attached, so this shows it even if the API server stores no status of devices
// (DRAResourceClaimDeviceStatus is off).
func runs(pod *corev1.Pod) bool {
	return slices.ContainsFunc(slices.Concat(pod.Status.InitContainerStatuses, pod.Status.ContainerStatuses), func(s corev1.ContainerStatus) bool {
		return s.State.Running != nil
	})
}

func isReserved(claim *resourceapi.ResourceClaim, pod *corev1.Pod) bool {
	return slices.ContainsFunc(claim.Status.ReservedFor, func(r resourceapi.ResourceClaimConsumerReference) bool {
		return attachment.IsPod(r) && r.UID == pod.UID
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

// notes lists contradictions between the objects about one attachment. hasStatus reports
// whether the pod has a network-status.
func (x *index) notes(state State, w want, hasStatus bool) []string {
	var out []string
	note := func(format string, args ...any) { out = append(out, fmt.Sprintf(format, args...)) }
	if r := w.result; r != nil && !x.unread[Slices] {
		device, there := x.published[r.Pool+"/"+r.Device]
		switch {
		case !there:
			note("device %s is no longer in any ResourceSlice", r.Device)
		case device.resource == "" && w.network != nil && !slices.Contains(device.networks, x.idOf(*w.network)):
			note("%s no longer offers network %s", some(device.nodes), w.network)
		}
	}
	if w.unlinked {
		note("the claim exists, but the pod's status does not name it")
	}
	if w.problem != nil && state != Failed {
		note("%v", w.problem)
	}
	if state == Attached && w.entry == nil {
		note("%s", withoutClaim)
	}
	attached := state == Attached || state == CheckFailed
	switch {
	case attached && w.reported == nil && w.status == nil:
		note("neither the claim's status nor network-status lists it")
	case attached && w.reported == nil && hasStatus:
		note("the claim's status lists it, network-status does not")
	case attached && w.reported == nil:
		note("the pod has no network-status")
	case attached && w.status != nil && w.status.NetworkData != nil && !sameAddresses(w.status.NetworkData.IPs, w.reported.IPs):
		note("network-status has other addresses: %s", strings.Join(w.reported.IPs, ", "))
	case !attached && state != Multus && w.reported != nil:
		note("network-status lists it, the claim's status does not")
	}
	return out
}

// sameAddresses compares a claim's addresses, which have a prefix, with those of
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
