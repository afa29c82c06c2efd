package inspect

import (
	"cmp"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Attachments are those of all pods, and of claims that no pod has, by
// namespace and pod, and in the order in which they are attached.
func Attachments(in Input) []Attachment {
	x := newIndex(in)
	out := []Attachment{}
	seen := map[*resourceapi.ResourceClaim]bool{}
	for _, pod := range in.Pods {
		w := x.wishOf(pod)
		for _, one := range w.wants {
			seen[one.claim] = true
			if !one.unsure || converted(one.entry) {
				out = append(out, x.row(pod, one, w.said))
			}
		}
		if w.bad != nil {
			out = append(out, badRow(pod, w.bad))
		}
		if !w.ours() || pod.DeletionTimestamp != nil {
			continue // what else network-status has is not ours, or is going
		}
		for _, s := range w.stray {
			out = append(out, strayRow(pod, s))
		}
	}
	for _, claim := range in.Claims {
		if !seen[claim] {
			out = append(out, x.orphans(claim)...)
		}
	}
	// Stable: the rows of a pod or a claim have their order already.
	slices.SortStableFunc(out, func(a, b Attachment) int {
		byPod := cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Pod, b.Pod))
		if byPod == 0 && a.Pod == "" {
			return cmp.Compare(a.Claim, b.Claim)
		}
		return byPod
	})
	return out
}

// row is one network of a pod.
func (x *index) row(pod *corev1.Pod, w want, said bool) Attachment {
	a := Attachment{
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
		Interface: w.iface, Network: w.network, Request: w.request.name,
		key: pod.Namespace + "/" + pod.Name + "/" + string(pod.UID) + "/" + w.key,
	}
	if w.claim != nil {
		a.Claim = w.claim.Name
	}
	if w.result != nil {
		a.Device, a.Pool = w.result.Device, w.result.Pool
	}
	a.State, a.Reason, a.Message = stateOf(pod, w)
	if a.State == Ended {
		return a
	}
	a.addAddresses(w)
	a.Notes = x.notes(a.State, w, said)
	if pod.DeletionTimestamp != nil {
		a.Notes = append(a.Notes, "the pod is being deleted")
	}
	return a
}

// addAddresses takes them from the claim's status or, where that has none, from
// network-status.
func (a *Attachment) addAddresses(w want) {
	if s := w.status; s != nil && s.NetworkData != nil {
		a.IPs, a.MAC = s.NetworkData.IPs, s.NetworkData.HardwareAddress
	} else if w.reported != nil && a.State == Multus {
		a.IPs, a.MAC = w.reported.IPs, w.reported.Mac
		a.Interface = cmp.Or(w.reported.Interface, a.Interface)
	}
}

func badRow(pod *corev1.Pod, err error) Attachment {
	return Attachment{
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
		State: Failed, Reason: "BadAnnotation", Message: err.Error(),
		key: pod.Namespace + "/" + pod.Name + "/" + string(pod.UID) + "/annotation",
	}
}

func strayRow(pod *corev1.Pod, s nadv1.NetworkStatus) Attachment {
	a := Attachment{
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
		Interface: s.Interface, IPs: s.IPs, MAC: s.Mac,
		State: Unclaimed, Reason: "NotAsked", Message: "network-status has it, but neither a claim nor the annotation asks for it",
		key: pod.Namespace + "/" + pod.Name + "/" + string(pod.UID) + "/status/" + s.Name + "/" + s.Interface,
	}
	if selections, err := attachment.ParseSelections(s.Name, pod.Namespace); err == nil && len(selections) == 1 {
		a.Network = &selections[0].Network
	}
	return a
}

// orphans are the networks of a claim that is of no pod of the input.
func (x *index) orphans(claim *resourceapi.ResourceClaim) []Attachment {
	wants := x.wantsOfClaim(claim)
	nameInterfaces(wants)
	var out []Attachment
	for _, w := range wants {
		a := Attachment{
			Namespace: claim.Namespace, Interface: w.iface, Network: w.network, Claim: claim.Name, Request: w.request.name,
			State: Waiting, Reason: "NoPod", Message: "no pod has the claim",
			key: claim.Namespace + "//" + claim.Name + "/" + w.key,
		}
		if w.result != nil {
			a.State, a.Device, a.Pool = Allocated, w.result.Device, w.result.Pool
		}
		for _, consumer := range claim.Status.ReservedFor {
			a.Message = fmt.Sprintf("the claim is reserved for %s %s, which is not there", consumer.Resource, consumer.Name)
		}
		a.addAddresses(w)
		out = append(out, a)
	}
	return out
}
