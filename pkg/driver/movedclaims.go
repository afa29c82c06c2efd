package driver

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// hasMoved reports whether the pod of a sandbox refers to claims that the kubelet has prepared for another pod. A claim to
// which pods refer by name passes from one to the next: while pods that overlap on the node refer to it, as after a forced
// deletion, the kubelet neither unprepares nor prepares it. gated has the claims whose gate
// a container of the pod brings. It returns an error for a pod that the watch has not seen while it may be the
// next one to have such a claim.
func (p *preparer) hasMoved(s liveSandbox, gated []string) (bool, error) {
	if s.static {
		return false, nil // it cannot have claims
	}
	pod, own := s.Pod, p.store.ForPod(s.Pod.UID)
	isOwn := func(claim string) bool {
		return slices.ContainsFunc(own, func(r checkpoint.Record) bool { return r.Claim.Name == claim })
	}
	isOther := func(r checkpoint.Record) bool {
		return r.Pod.UID != pod.UID && !r.Unclaimed() && !isOwn(r.Claim.Name)
	}
	if slices.ContainsFunc(gated, func(uid string) bool { return slices.ContainsFunc(p.store.ForClaim(uid), isOther) }) {
		return true, nil
	}
	known := p.watch.known(pod)
	if known != nil && known.references == nil || known == nil && len(own) > 0 {
		return false, nil
	}
	if known != nil && known.references.allOf(isOwn) {
		return false, nil // as usual, and the node's other records are not looked through
	}
	for r := range p.store.Each {
		switch {
		case r.Pod.UID == pod.UID, r.Claim.Namespace != pod.Namespace:
		case known == nil && p.watch.ends(r.Pod):
			return false, reason.Errorf(reason.PodNotRead, "pod %s: reading which claims it refers to: the driver's watch has not seen it yet", pod)
		case known != nil && known.references.names(r.Claim) && !isOwn(r.Claim.Name):
			return true, nil
		}
	}
	return false, nil
}

// withRecorded adds to claims of a pod the others to which it refers and that are recorded, for whichever pod,
// and returns all in the order of the pod's spec.
func (p *preparer) withRecorded(ctx context.Context, pod attachment.PodRef, have []*resourceapi.ResourceClaim) ([]*resourceapi.ResourceClaim, error) {
	refs := map[attachment.ClaimRef]bool{}
	for r := range p.store.Each {
		known := slices.ContainsFunc(have, func(c *resourceapi.ResourceClaim) bool { return string(c.UID) == r.Claim.UID })
		if !r.Unclaimed() && !known && r.Claim.Namespace == pod.Namespace {
			refs[r.Claim] = true
		}
	}
	if len(refs) == 0 {
		return have, nil
	}
	references, err := p.references(ctx, pod, have)
	if err != nil {
		return nil, reason.Errorf(reason.PodNotRead, "pod %s: reading which claims it refers to: %w", pod, err)
	}
	claims := slices.Clone(have)
	for ref := range refs {
		if !references.names(ref) {
			continue
		}
		claim, err := p.clients.Kube.ResourceV1().ResourceClaims(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
		if err != nil {
			return nil, fmt.Errorf("reading claim %s: %w", ref, err)
		}
		if string(claim.UID) == ref.UID {
			claims = append(claims, claim)
		}
	}
	slices.SortStableFunc(claims, func(a, b *resourceapi.ResourceClaim) int {
		return cmp.Compare(references.position(a.Name), references.position(b.Name))
	})
	return claims, nil
}
