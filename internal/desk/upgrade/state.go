package upgrade

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// StateKind is the kind of State.
const StateKind = "UpgradeState"

// State records how far a plan has been carried out. The cluster keeps it, so that
// any process can continue after an interruption at any point.
type State struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Phase      Phase  `json:"phase"`
	// Reason explains why the upgrade does not continue.
	Reason string `json:"reason,omitempty"`
	// Target is what is being rolled back: node/NAME, namespace/NAME,
	// Deployment/NAMESPACE/NAME, StatefulSet/NAMESPACE/NAME or all; empty
	// outside of rollbacks.
	Target string `json:"target,omitempty"`
	// Nodes are the nodes whose move has begun.
	Nodes map[string]*NodeState `json:"nodes,omitempty"`
	// Rollouts are the namespaces whose move beside Multus has begun.
	Rollouts map[string]*RolloutState `json:"rollouts,omitempty"`
	// Namespaces are the namespaces that were labelled, with their original label.
	Namespaces map[string]NamespaceState `json:"namespaces,omitempty"`
	// Multus are the original settings of the DaemonSets that are kept off nadra's
	// nodes, by namespace/name.
	Multus map[string]MultusState `json:"multus,omitempty"`
}

// Phase is the phase of an upgrade.
type Phase string

// The phases.
const (
	Running     Phase = "running"
	Paused      Phase = "paused"
	Stopped     Phase = "stopped" // a step failed; the state's Reason has its code
	Done        Phase = "done"
	RollingBack Phase = "rolling back"
	RolledBack  Phase = "rolled back"
)

// NodeState records how far the move of a node is.
type NodeState struct {
	Direction Direction `json:"direction"`
	// Step is the last completed step; empty if none is.
	Step Step `json:"step,omitempty"`
	// Drains is true if the node's pods with networks are evicted. A node that moves to
	// nadra keeps them otherwise.
	Drains bool `json:"drains,omitempty"`
	// WasCordoned is true if the node was cordoned before its move.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	// Ready is how many pods of each disturbed workload were ready before the move.
	Ready []WorkloadPods `json:"ready,omitempty"`
}

// NamespaceState is the original state of a namespace.
type NamespaceState struct {
	// Owner is the original value of the label nadra.dev/owner; empty without one.
	Owner string `json:"owner,omitempty"`
}

// MultusState is the original state of a DaemonSet of Multus.
type MultusState struct {
	// Affinity is the pod template's, UpdateStrategy the DaemonSet's, both as JSON;
	// empty if it had none.
	Affinity       json.RawMessage `json:"affinity,omitempty"`
	UpdateStrategy json.RawMessage `json:"updateStrategy,omitempty"`
}

// Direction is the direction of a node's move.
type Direction string

// The directions.
const (
	ToNadra  Direction = "to-nadra"
	ToMultus Direction = "to-multus"
)

// From returns the owner that nodes leave: v1alpha1.OwnerMultus or OwnerNadra.
func (d Direction) From() string {
	if d == ToMultus {
		return v1alpha1.OwnerNadra
	}
	return v1alpha1.OwnerMultus
}

// Step is a step of a node's move.
type Step string

// The steps. Each can be repeated after an interruption.
const (
	Cordon      Step = "cordon"      // no pod is scheduled to the node
	Inspect     Step = "inspect"     // what Multus has attached can be adopted
	Drain       Step = "drain"       // the pods with networks, and their networks, are gone
	Assign      Step = "assign"      // the node is labelled for nadra, and Multus' pod is gone
	Unconfigure Step = "unconfigure" // the container runtime does not use Multus
	Adopt       Step = "adopt"       // nadra detaches what Multus has attached
	Serve       Step = "serve"       // nadra's driver offers networks
	Verify      Step = "verify"      // canaries have their networks
	Release     Step = "release"     // the label says that the node returns, and what was adopted is Multus' again
	Configure   Step = "configure"   // the container runtime uses Multus again
	Return      Step = "return"      // Multus' pod is ready, the runtime has its configuration, and the label is removed
	Uncordon    Step = "uncordon"    // pods are scheduled to the node again
	Recover     Step = "recover"     // as many pods are ready as before
)

// StepsOf returns the steps of a direction, in order. A node that moves to nadra is drained, or
// keeps its pods. One that moves back is always drained of the pods whose networks nadra attached.
func StepsOf(d Direction, drains bool) []Step {
	switch {
	case d == ToMultus:
		return []Step{Cordon, Drain, Release, Configure, Return, Uncordon, Recover}
	case drains:
		return []Step{Cordon, Drain, Assign, Unconfigure, Adopt, Serve, Verify, Uncordon, Recover}
	}
	return []Step{Cordon, Inspect, Assign, Unconfigure, Adopt, Serve, Verify, Uncordon, Recover}
}

// Finished reports whether the node has completed all steps of its direction.
func (n *NodeState) Finished() bool { return n != nil && n.Step == Recover }

// AtNadra reports whether the node has moved to nadra.
func (n *NodeState) AtNadra() bool { return n.Finished() && n.Direction == ToNadra }

// Next returns the remaining steps of a direction. A node that turns around starts
// over, which the steps of both directions allow. So does one that is drained from now on, or not
// any more.
func (n *NodeState) Next(d Direction, drains bool) []Step {
	steps := StepsOf(d, drains)
	if !n.continues(d, drains) || n.Step == "" {
		return steps
	}
	return steps[slices.Index(steps, n.Step)+1:]
}

// continues reports whether the node is on its way by the same steps.
func (n *NodeState) continues(d Direction, drains bool) bool {
	return n != nil && n.Direction == d && (d == ToMultus || n.Drains == drains || n.Finished())
}

// Begin returns the state of a node that takes its next step: n itself, or that of a new move.
func (n *NodeState) Begin(d Direction, drains bool) *NodeState {
	if n.continues(d, drains) {
		return n
	}
	out := &NodeState{Direction: d, Drains: drains || d == ToMultus}
	if n != nil && !n.Finished() {
		out.WasCordoned, out.Ready = n.WasCordoned, n.Ready // before the interrupted move
	}
	return out
}

// Remaining returns the nodes of a wave that have not moved to nadra, in order.
func (s *State) Remaining(w Wave) []string {
	var out []string
	for _, n := range w.Nodes {
		if !s.Nodes[n.Name].AtNadra() {
			out = append(out, n.Name)
		}
	}
	return out
}

// NewState returns the state of a plan before its first step.
func NewState() *State {
	return &State{
		APIVersion: APIVersion, Kind: StateKind, Phase: Running,
		Nodes: map[string]*NodeState{}, Namespaces: map[string]NamespaceState{}, Multus: map[string]MultusState{},
		Rollouts: map[string]*RolloutState{},
	}
}

// ParseState parses the output of JSON.
func ParseState(text []byte) (*State, error) {
	s := NewState()
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("reading the state of the upgrade: %w", err)
	}
	if s.APIVersion != APIVersion || s.Kind != StateKind {
		return nil, fmt.Errorf("reading the state of the upgrade: apiVersion %q and kind %q are not %s %s: use the version of kubectl-nadra that wrote it", s.APIVersion, s.Kind, APIVersion, StateKind)
	}
	for name, n := range s.Nodes {
		if n == nil || n.Direction != ToNadra && n.Direction != ToMultus || n.Step != "" && !slices.Contains(StepsOf(n.Direction, n.Drains), n.Step) {
			return nil, fmt.Errorf("reading the state of the upgrade: nodes[%s] has an unknown direction or step: use the version of kubectl-nadra that wrote it", name)
		}
	}
	for name, r := range s.Rollouts {
		if !r.valid() {
			return nil, fmt.Errorf("reading the state of the upgrade: rollouts[%s] has an unknown direction or step: use the version of kubectl-nadra that wrote it", name)
		}
	}
	return s, nil
}

// JSON encodes the state as the cluster keeps it.
func (s *State) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the state of the upgrade: %w", err)
	}
	return text, nil
}

// Line is the progress of one node or, beside Multus, of one namespace.
type Line struct {
	Wave      string    `json:"wave,omitempty"`
	Node      string    `json:"node,omitempty"`
	Namespace string    `json:"namespace,omitempty"`
	Direction Direction `json:"direction"`
	// Step is the last completed step. Done is the number of completed steps, Of the
	// number of all.
	Step Step `json:"step,omitempty"`
	Done int  `json:"done"`
	Of   int  `json:"of"`
}

// Lines returns the progress of the plan's nodes, in order, and then of nodes that the
// plan does not have any more.
func (s *State) Lines(p *Plan) []Line {
	if p.BesideMultus {
		return s.rolloutLines(p)
	}
	var out []Line
	seen := map[string]bool{}
	line := func(wave, node string) {
		l := Line{Wave: wave, Node: node, Direction: ToNadra}
		drains := p.Drain
		if n := s.Nodes[node]; n != nil {
			l.Direction, l.Step, drains = n.Direction, n.Step, n.Drains
		}
		steps := StepsOf(l.Direction, drains)
		l.Of, l.Done = len(steps), slices.Index(steps, l.Step)+1
		out = append(out, l)
		seen[node] = true
	}
	for _, w := range p.Waves {
		for _, n := range w.Nodes {
			line(w.Name, n.Name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(s.Nodes)) {
		if !seen[name] {
			line("", name)
		}
	}
	return out
}
