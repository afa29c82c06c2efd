package inspect

import (
	"cmp"
	"fmt"
	"slices"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Attachments returns the attachments of all pods, and of claims without a pod. They are
// sorted by namespace and pod, and then in the order of attaching.
func Attachments(in Input) []Attachment {
	x := newIndex(in)
	out := []Attachment{}
	seen := map[*resourceapi.ResourceClaim]bool{}
	for _, pod := range in.Pods {
		w := x.wishOf(pod)
		for _, name := range attachment.ClaimNames(pod) {
			seen[x.claims[pod.Namespace+"/"+name]] = true
		}
		for _, one := range w.wants {
			seen[one.claim] = true
			if one.shown() {
				out = append(out, x.row(pod, one, w.hasStatus))
			}
		}
		if w.invalid != nil {
			out = append(out, invalidRow(pod, w.invalid))
		}
		if !w.asks() || pod.DeletionTimestamp != nil {
			continue // other entries are not nadra's, or are being deleted
		}
		for _, s := range w.unrequested {
			out = append(out, unrequestedRow(pod, s))
		}
	}
	for _, claim := range in.Claims {
		if !seen[claim] {
			out = append(out, x.claimRows(claim)...)
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

// row returns one network of a pod.
func (x *index) row(pod *corev1.Pod, w want, hasStatus bool) Attachment {
	a := Attachment{
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
		Interface: w.iface, Network: w.network, Request: w.request.Name, ReportedAt: w.reportedAt,
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
	a.Notes = x.notes(a.State, w, hasStatus)
	if pod.DeletionTimestamp != nil {
		a.Notes = append(a.Notes, "the pod is being deleted")
	}
	return a
}

// addAddresses sets the addresses from the claim's status or, if that has none because Multus
// serves the network or the API server stores no status of devices, from network-status.
func (a *Attachment) addAddresses(w want) {
	if s := w.status; s != nil && s.NetworkData != nil {
		a.IPs, a.MAC = s.NetworkData.IPs, s.NetworkData.HardwareAddress
	} else if w.reported != nil && (a.State == Multus || a.State == Attached && w.status == nil) {
		a.IPs, a.MAC = w.reported.IPs, w.reported.Mac
		a.Interface = cmp.Or(w.reported.Interface, a.Interface)
	}
}

// invalidRow returns the row of a pod whose annotation cannot be read, or that has too many claims.
func invalidRow(pod *corev1.Pod, err error) Attachment {
	return Attachment{
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
		State: Failed, Reason: string(cmp.Or(reason.Of(err), reason.AnnotationInvalid)), Message: err.Error(),
		key: pod.Namespace + "/" + pod.Name + "/" + string(pod.UID) + "/annotation",
	}
}

// unrequestedRow returns the row of an entry in network-status that the pod does not ask for.
func unrequestedRow(pod *corev1.Pod, s nadv1.NetworkStatus) Attachment {
	a := Attachment{
		Namespace: pod.Namespace, Pod: pod.Name, Node: pod.Spec.NodeName,
		Interface: s.Interface, IPs: s.IPs, MAC: s.Mac,
		State: Unclaimed, Reason: "NotAsked", Message: "network-status lists it, but neither a claim nor the annotation asks for it",
		key: pod.Namespace + "/" + pod.Name + "/" + string(pod.UID) + "/status/" + s.Name + "/" + s.Interface,
	}
	if selections, err := attachment.ParseSelections(s.Name, pod.Namespace); err == nil && len(selections) == 1 {
		a.Network = &selections[0].Network
	}
	return a
}

// claimRows returns the networks of a claim that belongs to no pod of the input.
func (x *index) claimRows(claim *resourceapi.ResourceClaim) []Attachment {
	wants := x.wantsOfClaim(claim)
	nameInterfaces(wants)
	var out []Attachment
	for _, w := range wants {
		a := Attachment{
			Namespace: claim.Namespace, Interface: w.iface, Network: w.network, Claim: claim.Name, Request: w.request.Name,
			State: Waiting, Reason: "NoPod", Message: "no pod has the claim",
			key: claim.Namespace + "//" + claim.Name + "/" + w.key,
		}
		if w.result != nil {
			a.State, a.Device, a.Pool = Allocated, w.result.Device, w.result.Pool
		}
		for _, consumer := range claim.Status.ReservedFor {
			a.Message = fmt.Sprintf("the claim is reserved for %s %s, which does not exist", consumer.Resource, consumer.Name)
		}
		a.addAddresses(w)
		out = append(out, a)
	}
	return out
}
