package inspect

import (
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// want is one network that a pod asks for, with everything that is known about it.
type want struct {
	key     string
	network *attachment.NetworkRef
	iface   string
	// entry is one of the pod's spec.resourceClaims, or stands for the claim of its extended
	// resources. It is nil if only the annotation asks for the network.
	entry *corev1.PodResourceClaim
	// claim is nil if it does not exist. unlinked: it exists, but the pod's status does
	// not name it.
	claim    *resourceapi.ResourceClaim
	unlinked bool
	// unknown: claim and template do not exist, so the claim may not be for networks.
	unknown bool
	request request
	// problem is why the claim's configuration cannot be read.
	problem error
	result  *resourceapi.DeviceRequestAllocationResult
	status  *resourceapi.AllocatedDeviceStatus
	// reported is the network's entry in network-status.
	reported *nadv1.NetworkStatus
}

// removed reports whether an edit of the running pod's annotation has removed the network of a claim.
func (w want) removed() bool {
	ready := readiness(w.status)
	return ready != nil && ready.Reason == reason.ConditionDetached
}

// wish is everything that one pod asks for.
type wish struct {
	wants []want
	// invalid is why the annotation cannot be read, if the pod has no claims instead.
	invalid error
	// unrequested are the entries of network-status that the pod does not ask for.
	unrequested []nadv1.NetworkStatus
	// hasStatus: the pod has a network-status.
	hasStatus bool
}

// asks reports whether the pod asks for networks.
func (w wish) asks() bool { return len(w.wants) > 0 || w.invalid != nil }

// wishOf joins a pod's claims, its annotation and its network-status.
func (x *index) wishOf(pod *corev1.Pod) wish {
	var w wish
	for i := range pod.Spec.ResourceClaims {
		w.wants = append(w.wants, x.wantsOfEntry(pod, &pod.Spec.ResourceClaims[i])...)
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		entry := &corev1.PodResourceClaim{Name: "extended-resources", ResourceClaimName: &s.ResourceClaimName}
		// A device of a pool is for a network of the annotation, and one of another driver for none.
		w.wants = append(w.wants, slices.DeleteFunc(x.wantsOfEntry(pod, entry), func(one want) bool { return one.network == nil })...)
	}
	nameInterfaces(w.wants)
	rest, err := unclaimed(pod, w.wants)
	if len(w.wants) == 0 {
		w.invalid = err // with claims, the annotation is not read
	}
	w.wants = append(w.wants, rest...)
	w.match(pod)
	return w
}

// nameInterfaces sets the interface names that the driver will give: by position over
// all claims of the pod.
func nameInterfaces(wants []want) {
	selections := make([]attachment.Selection, len(wants))
	for i, w := range wants {
		if selections[i].Interface = w.iface; w.problem != nil || w.unknown {
			return
		}
	}
	names, err := attachment.InterfaceNames(selections)
	if err != nil {
		return
	}
	for i := range wants {
		wants[i].iface = names[i]
	}
}

// unclaimed returns the networks of the annotation for which the pod has no claim.
func unclaimed(pod *corev1.Pod, claimed []want) ([]want, error) {
	selections, err := attachment.ParseSelections(attachment.NetworksText(pod.Annotations), pod.Namespace)
	if err != nil {
		return nil, err
	}
	names, err := attachment.InterfaceNames(selections)
	if err != nil {
		return nil, fmt.Errorf("reading annotation %s: %w", attachment.NetworksKey(pod.Annotations), err)
	}
	left := map[attachment.NetworkRef]int{}
	unknown := 0
	for _, w := range claimed {
		switch {
		case w.removed(): // an element that names the network again has no claim
		case w.network != nil:
			left[*w.network]++
		case !w.unknown:
			unknown++
		case converted(w.entry):
			return nil, nil // the claim is for all of them
		}
	}
	var out []want
	for i, s := range selections {
		switch {
		case left[s.Network] > 0:
			left[s.Network]--
		case unknown > 0:
			unknown--
		default:
			out = append(out, want{key: fmt.Sprintf("annotation/%d", i), network: &s.Network, iface: names[i]})
		}
	}
	return out, nil
}

// converted reports whether a conversion has written the entry, by its name
// (translate.PodClaimName).
func converted(entry *corev1.PodResourceClaim) bool {
	return entry != nil && strings.HasPrefix(entry.Name, "nadra")
}

// match finds the entry in network-status for each want.
func (w *wish) match(pod *corev1.Pod) {
	entries, ok := attachment.StatusesOf(pod)
	w.hasStatus = ok
	used := make([]bool, len(entries))
	find := func(is func(want, nadv1.NetworkStatus) bool) {
		for i := range w.wants {
			if w.wants[i].reported != nil || w.wants[i].network == nil || w.wants[i].removed() {
				continue
			}
			at := slices.IndexFunc(entries, func(s nadv1.NetworkStatus) bool { return !s.Default && is(w.wants[i], s) })
			if at >= 0 && !used[at] {
				used[at], w.wants[i].reported = true, &entries[at]
			}
		}
	}
	find(func(w want, s nadv1.NetworkStatus) bool {
		return s.Interface == w.iface && s.Name == w.network.String()
	})
	find(func(w want, s nadv1.NetworkStatus) bool { return s.Name == w.network.String() })
	for i, s := range entries {
		// A plugin may create several interfaces, which are several entries.
		several := slices.ContainsFunc(w.wants, func(o want) bool { return o.network != nil && o.network.String() == s.Name })
		if !used[i] && !several && !attachment.IsDefault(s) {
			w.unrequested = append(w.unrequested, s)
		}
	}
}

// networksOf returns the networks that a pod asks for, as far as the input shows.
func networksOf(in Input, pod *corev1.Pod) []attachment.NetworkRef {
	var out []attachment.NetworkRef
	for _, w := range newIndex(in).wishOf(pod).wants {
		if w.network != nil && !slices.Contains(out, *w.network) {
			out = append(out, *w.network)
		}
	}
	return out
}
