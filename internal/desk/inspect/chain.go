package inspect

import (
	"maps"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// chainInput is the input for one pod. Its claims and templates are those of the pod's
// namespace.
type chainInput struct {
	Input
	Pod *corev1.Pod
	// Namespace is the pod's. It is nil if the user may not read it.
	Namespace *corev1.Namespace
	Nodes     []*corev1.Node
	// Drivers are the nodes on which nadra's driver is ready. It is nil if they are unknown.
	Drivers map[string]bool
	// Installation has nadra's programs with their flags. It is nil if they are unknown.
	Installation *installation.Settings
	// NoDRA is true if the cluster does not serve resource.k8s.io/v1.
	NoDRA bool
}

// Verdict summarizes a chain.
type Verdict string

// The verdicts.
const (
	ChainOK      Verdict = "ok"
	ChainFailed  Verdict = "failed"
	ChainWaiting Verdict = "waiting"
	// ChainNotConcerned: the pod asks for no networks, or Multus serves it.
	ChainNotConcerned Verdict = "not concerned"
	// ChainEnded: the pod has ended, and not because of its networks.
	ChainEnded Verdict = "ended"
)

// Chain lists the steps from a pod's request for networks to its interfaces.
type Chain struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string  `json:"namespace"`
	Pod             string  `json:"pod"`
	Node            string  `json:"node,omitempty"`
	Verdict         Verdict `json:"verdict"`
	Steps           []Step  `json:"steps"`
	// Blocker is the first step that fails or, if none fails, the first that waits.
	Blocker *Step `json:"blocker,omitempty"`
	// Unread are the kinds that the user may not read, sorted. The steps do not count their objects as absent.
	Unread []Kind `json:"unread,omitempty"`
}

// subject is the pod that a chain explains, with everything that is known about it.
type subject struct {
	in     chainInput
	x      *index
	pod    *corev1.Pod
	wish   wish
	node   string
	events podEvents
	// before are the steps so far.
	before *stepList
	// usages has the usage of each network of which a step has asked.
	usages map[attachment.NetworkRef]usage
}

// Explain follows a pod from its request for networks to its interfaces.
func Explain(in chainInput) Chain {
	x := newIndex(in.Input)
	s := &subject{
		in: in, x: x, pod: in.Pod, wish: x.wishOf(in.Pod), node: in.Pod.Spec.NodeName,
		events: podEvents{in.Pod, in.Events}, before: &stepList{}, usages: map[attachment.NetworkRef]usage{},
	}
	list := s.before
	list.add("request", nil, s.request())
	if step := s.owner(); step != nil {
		list.add("owner", nil, *step)
	}
	if s.wish.asks() && s.wish.invalid == nil {
		follow(s, list)
	}
	out := Chain{
		TypeMeta:  typeMeta("PodChain"),
		Namespace: s.pod.Namespace, Pod: s.pod.Name, Node: s.node, Steps: list.steps, Unread: slices.Sorted(maps.Keys(in.Unread)),
	}
	out.Verdict, out.Blocker = verdict(s, list)
	return out
}

// follow adds the steps in the order in which they happen.
func follow(s *subject, list *stepList) {
	if !attachment.IsOver(s.pod) && s.pod.DeletionTimestamp == nil {
		beforeScheduling(s, list)
		list.add("scheduling", nil, s.scheduling())
		for _, w := range s.wish.wants {
			list.add("preparation", &w, s.preparation(w))
			list.add("attachment", &w, s.attachment(w))
		}
	}
	if s.pod.DeletionTimestamp != nil {
		list.add("release", nil, s.release())
		return
	}
	list.add("containers", nil, s.containers())
}

// beforeScheduling adds the steps of each network until the scheduler binds the pod.
func beforeScheduling(s *subject, list *stepList) {
	for _, w := range s.wish.wants {
		if !w.unknown {
			list.add("definition", &w, s.definition(w))
			list.add("plugins", &w, s.plugins(w))
			list.add("IPAM", &w, s.ipam(w))
			list.add("class", &w, s.class(w))
			list.add("nodes", &w, s.nodes(w))
		}
		list.add("claim", &w, s.claim(w))
		list.add("allocation", &w, s.allocation(w))
		list.add("reservation", &w, s.reservation(w))
	}
}

// verdict summarizes the steps. It also returns the step that keeps the pod from its
// networks, if there is one.
func verdict(s *subject, list *stepList) (Verdict, *Step) {
	if blocker := list.first(StepFailed); blocker != nil {
		return ChainFailed, blocker
	}
	if blocker := list.first(StepWaiting); blocker != nil {
		return ChainWaiting, blocker
	}
	switch {
	case attachment.IsOver(s.pod) && s.wish.asks():
		return ChainEnded, nil
	case !list.usesClaims():
		return ChainNotConcerned, nil
	}
	return ChainOK, nil
}

// ownedNodes returns the names of the nodes that are nadra's by their label. Beside Multus, the label has no effect.
func (s *subject) ownedNodes() []string {
	if s.in.Installation != nil && s.in.Installation.BesideMultus() {
		return nil
	}
	var names []string
	for _, n := range s.in.Nodes {
		if n.Labels[v1alpha1.OwnerLabel] == v1alpha1.OwnerNadra {
			names = append(names, n.Name)
		}
	}
	return names
}

// driverAway returns a step that fails if nadra's driver is not ready on the pod's node, or nil if it is, or if that is
// not known.
func (s *subject) driverAway() *Step {
	if s.node == "" || s.in.Drivers == nil || s.in.Drivers[s.node] {
		return nil
	}
	step := failed("nadra's driver is not ready on node "+s.node, reason.OfCluster, noDriver)
	return &step
}

// hasNetwork reports whether the pod already has a network. Errors in the steps before
// then have no effect on this pod.
func hasNetwork(w want) bool {
	ready := readiness(w.status)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == reason.ConditionCheckFailed) ||
		w.entry == nil && w.reported != nil
}

// unlessAttached turns a failure into a remark for a pod that has the network.
func unlessAttached(w want, s Step) Step {
	if s.State == StepFailed && hasNetwork(w) {
		return ok(s.Detail + "; this pod already has the network, a new one would not get it")
	}
	return s
}
