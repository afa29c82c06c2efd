package inspect

import (
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
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
	request attachment.Option
	// problem is why the claim's configuration cannot be read.
	problem error
	result  *resourceapi.DeviceRequestAllocationResult
	status  *resourceapi.AllocatedDeviceStatus
	// reported is the network's entry in network-status, and reportedAt its number there, beginning with 1.
	reported   *nadv1.NetworkStatus
	reportedAt int
}

// shown reports whether a want is for a network, as far as is known.
func (w want) shown() bool { return !w.unknown || converted(w.entry) }

// removed reports whether an edit of the running pod's annotation has removed the network of a claim.
func (w want) removed() bool {
	ready := readiness(w.status)
	return ready != nil && ready.Reason == reason.ConditionDetached
}

// wish is everything that one pod asks for.
type wish struct {
	wants []want
	// invalid is why the annotation cannot be read, if the pod has no claims instead, or that it has too many claims.
	invalid error
	// unrequested are the entries of network-status that the pod does not ask for.
	unrequested []nadv1.NetworkStatus
	// hasStatus: the pod has a network-status.
	hasStatus bool
}

// asks reports whether the pod asks for networks.
func (w wish) asks() bool { return len(w.wants) > 0 || w.invalid != nil }

// wishOf joins a pod's claims, its annotation and its network-status. It reads the networks of the first MaxPodClaims
// claims, and makes the wish invalid if others are for networks, too: the API server admits as many as fit into a pod.
func (x *index) wishOf(pod *corev1.Pod) wish {
	var w wish
	claims := map[string]string{}
	for _, s := range pod.Status.ResourceClaimStatuses {
		claims[s.Name] = ptr.Deref(s.ResourceClaimName, "")
	}
	for i := range pod.Spec.ResourceClaims {
		wants := x.wantsOfEntry(pod, &pod.Spec.ResourceClaims[i], claims)
		if i < v1alpha1.MaxPodClaims {
			w.wants = append(w.wants, wants...)
		} else if slices.ContainsFunc(wants, want.shown) {
			w.invalid = v1alpha1.CheckSize("spec.resourceClaims", len(pod.Spec.ResourceClaims),
				v1alpha1.MaxPodClaims, "entries", "remove some of them")
			break
		}
	}
	if s := pod.Status.ExtendedResourceClaimStatus; s != nil {
		entry := &corev1.PodResourceClaim{Name: "extended-resources", ResourceClaimName: &s.ResourceClaimName}
		// A device of a pool is for a network of the annotation, and one of another driver for none.
		w.wants = append(w.wants, slices.DeleteFunc(x.wantsOfEntry(pod, entry, nil), func(one want) bool { return one.network == nil })...)
	}
	nameInterfaces(w.wants)
	if w.invalid != nil {
		w.match(pod)
		w.unrequested = nil // a claim that is not read may ask for it
		return w
	}
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
		if selections[i].Interface = w.iface; w.problem != nil || w.unknown || w.request.Undecided {
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
	used, wanted := make([]bool, len(entries)), map[string]bool{}
	find := func(key func(network, iface string) [2]string) {
		free := map[[2]string][]int{}
		for i, s := range entries {
			if k := key(s.Name, s.Interface); !used[i] && !attachment.IsDefault(s) {
				free[k] = append(free[k], i)
			}
		}
		for i := range w.wants {
			one := &w.wants[i]
			if one.network == nil {
				continue
			}
			name := one.network.String()
			wanted[name] = true
			k := key(name, one.iface)
			if at := free[k]; len(at) > 0 && one.reported == nil && !one.removed() {
				used[at[0]], one.reported, one.reportedAt, free[k] = true, &entries[at[0]], at[0]+1, at[1:]
			}
		}
	}
	find(func(network, iface string) [2]string { return [2]string{network, iface} })
	find(func(network, _ string) [2]string { return [2]string{network} })
	for i, s := range entries {
		// A plugin may create several interfaces, which are several entries.
		if !used[i] && !wanted[s.Name] && !attachment.IsDefault(s) {
			w.unrequested = append(w.unrequested, s)
		}
	}
}

// networksOf returns the networks that a pod asks for, as far as the input shows: at most as many as it can have.
func networksOf(in Input, pod *corev1.Pod) []attachment.NetworkRef {
	var out []attachment.NetworkRef
	for _, w := range newIndex(in).wishOf(pod).wants {
		if w.network != nil && len(out) < v1alpha1.MaxNetworks && !slices.Contains(out, *w.network) {
			out = append(out, *w.network)
		}
	}
	return out
}
