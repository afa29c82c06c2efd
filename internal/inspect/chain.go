package inspect

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// ChainInput is what there is to say about one pod: of Input, claims and
// templates are those of the pod's namespace.
type ChainInput struct {
	Input
	Pod   *corev1.Pod
	Nodes []*corev1.Node
	// Events are those on the pod and on its networks.
	Events []*corev1.Event
	// NoDRA says that the cluster does not serve resource.k8s.io/v1.
	NoDRA bool
}

// Verdict is a chain in one word.
type Verdict string

// The verdicts.
const (
	ChainOK      Verdict = "ok"
	ChainFailed  Verdict = "failed"
	ChainWaiting Verdict = "waiting"
	// ChainNotConcerned: the pod asks for no networks, or Multus serves it.
	ChainNotConcerned Verdict = "not concerned"
	// ChainEnded: the pod has ended, and nothing of the networks has ended it.
	ChainEnded Verdict = "ended"
)

// Chain is the way from a pod's wish to its interfaces.
type Chain struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string  `json:"namespace"`
	Pod             string  `json:"pod"`
	Node            string  `json:"node,omitempty"`
	Verdict         Verdict `json:"verdict"`
	Steps           []Step  `json:"steps"`
	// Blocker is the first step that fails or, where none does, that waits.
	Blocker *Step `json:"blocker,omitempty"`
}

// StepState says what became of a step.
type StepState string

// The states of a step.
const (
	StepOK         StepState = "ok"
	StepFailed     StepState = "failed"
	StepWaiting    StepState = "waiting"
	StepNotReached StepState = "not reached"
	StepNotUsed    StepState = "not used"
)

// Step is one link of the chain.
type Step struct {
	Name string `json:"name"`
	// Network and Interface are empty for steps of the whole pod.
	Network   string `json:"network,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Claim is the entry of the pod's spec.resourceClaims.
	Claim  string    `json:"claim,omitempty"`
	State  StepState `json:"state"`
	Detail string    `json:"detail,omitempty"`
	// Whose says whose job it is to go on, and Do what that is.
	Whose Owner  `json:"whose,omitempty"`
	Do    string `json:"do,omitempty"`
}

// chain is one that is being made.
type chain struct {
	in    ChainInput
	x     *index
	pod   *corev1.Pod
	wish  wish
	node  string
	steps []Step
}

// Explain follows a pod's wish to its interfaces.
func Explain(in ChainInput) Chain {
	c := &chain{in: in, x: newIndex(in.Input), pod: in.Pod, node: in.Pod.Spec.NodeName}
	c.wish = c.x.wishOf(c.pod)
	c.add("request", nil, c.asked())
	if c.wish.ours() && c.wish.bad == nil {
		c.follow()
	}
	out := Chain{
		TypeMeta:  typeMeta("PodChain"),
		Namespace: c.pod.Namespace, Pod: c.pod.Name, Node: c.node, Steps: c.steps,
	}
	out.Verdict, out.Blocker = c.verdict()
	return out
}

// follow adds the steps in the order in which they happen.
func (c *chain) follow() {
	if !isOver(c.pod) {
		c.beforeScheduling()
		c.add("scheduling", nil, c.scheduling())
		for _, w := range c.wish.wants {
			c.add("preparation", &w, c.preparation(w))
			c.add("attachment", &w, c.attaching(w))
		}
	}
	c.add("containers", nil, c.containers())
	if c.pod.DeletionTimestamp != nil {
		c.add("release", nil, c.release())
	}
}

func (c *chain) beforeScheduling() {
	for _, w := range c.wish.wants {
		if !w.unsure {
			c.add("definition", &w, c.definition(w))
			c.add("plugins", &w, c.plugins(w))
			c.add("IPAM", &w, c.ipam(w))
			c.add("class", &w, c.class(w))
			c.add("nodes", &w, c.nodes(w))
		}
		c.add("claim", &w, c.claim(w))
		c.add("allocation", &w, c.allocation(w))
		c.add("reservation", &w, c.reservation(w))
	}
}

func (c *chain) add(name string, w *want, s Step) {
	s.Name = name
	if w != nil {
		s.Interface = w.iface
		if w.network != nil {
			s.Network = w.network.String()
		}
		if w.entry != nil {
			s.Claim = w.entry.Name
		}
	}
	c.steps = append(c.steps, s)
}

// failed reports whether a step so far has.
func (c *chain) failed() bool {
	for _, s := range c.steps {
		if s.State == StepFailed {
			return true
		}
	}
	return false
}

func (c *chain) verdict() (Verdict, *Step) {
	var waiting *Step
	used := false
	for i, s := range c.steps {
		switch {
		case s.State == StepFailed:
			return ChainFailed, &c.steps[i]
		case s.State == StepWaiting && waiting == nil:
			waiting = &c.steps[i]
		}
		used = used || s.State == StepOK && s.Name == "claim"
	}
	switch {
	case waiting != nil:
		return ChainWaiting, waiting
	case isOver(c.pod) && c.wish.ours():
		return ChainEnded, nil
	case !used:
		return ChainNotConcerned, nil
	}
	return ChainOK, nil
}

func ok(detail string) Step { return Step{State: StepOK, Detail: detail} }

func notUsed(detail string) Step { return Step{State: StepNotUsed, Detail: detail} }

func notReached() Step { return Step{State: StepNotReached} }

func failed(detail string, whose Owner, do string) Step {
	return Step{State: StepFailed, Detail: detail, Whose: whose, Do: do}
}

func waiting(detail string, whose Owner, do string) Step {
	return Step{State: StepWaiting, Detail: detail, Whose: whose, Do: do}
}

// has reports whether the pod has the network already: then what is wrong
// before it is of no consequence for this pod.
func has(w want) bool {
	ready := readiness(w.status)
	return ready != nil && (ready.Status == metav1.ConditionTrue || ready.Reason == reasonCheckFailed) ||
		w.entry == nil && w.reported != nil
}

// unlessAttached weakens a failure for a pod that has the network.
func unlessAttached(w want, s Step) Step {
	if s.State == StepFailed && has(w) {
		return ok(s.Detail + "; this pod has the network already, a new one would not get it")
	}
	return s
}

// refOf is the network of a want in words.
func refOf(w want) string {
	if w.network == nil {
		return "an unnamed network"
	}
	return w.network.String()
}

func (c *chain) networkOf(w want) (attachment.NetworkRef, bool) {
	if w.network == nil {
		return attachment.NetworkRef{}, false
	}
	return *w.network, true
}
