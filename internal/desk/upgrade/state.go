package upgrade

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/types"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// stateKind is the kind of State.
const stateKind = "UpgradeState"

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
	Nodes map[string]*Move `json:"nodes,omitempty"`
	// Rollouts are the namespaces whose move beside Multus has begun.
	Rollouts map[string]*Move `json:"rollouts,omitempty"`
	// Namespaces are the namespaces that were labelled, with their original label.
	Namespaces map[string]namespaceState `json:"namespaces,omitempty"`
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

// Move records how far the move of a node or, beside Multus, of a namespace is.
type Move struct {
	Direction Direction `json:"direction"`
	// Step is the last completed step; empty if none is.
	Step Step `json:"step,omitempty"`
	// UID is the node's. States of earlier versions have none.
	UID types.UID `json:"uid,omitempty"`
	// Drains is read from the states of earlier versions, which wrote it for nodes whose pods are evicted. On the
	// way to nadra, none is.
	Drains bool `json:"drains,omitempty"`
	// WasCordoned is true if the node was cordoned before its move.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	// Ready is how many pods of each disturbed workload were ready before the move.
	Ready []WorkloadPods `json:"ready,omitempty"`
	// Restarted are the workloads of the namespace whose rollout has begun.
	Restarted []Workload `json:"restarted,omitempty"`
	// Before is the snapshot of the namespace before its move, compressed.
	Before []byte `json:"before,omitempty"`
}

// namespaceState is the original state of a namespace.
type namespaceState struct {
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

// Direction is the direction of a move.
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

// Step is a step of a move.
type Step string

// The steps of a node. Each can be repeated after an interruption.
const (
	Cordon      Step = "cordon"      // no pod is scheduled to the node
	Inspect     Step = "inspect"     // what Multus has attached can be adopted
	Assign      Step = "assign"      // the node is labelled for nadra, and Multus' pod is gone
	Unconfigure Step = "unconfigure" // the container runtime does not use Multus
	Adopt       Step = "adopt"       // nadra detaches what Multus has attached
	Serve       Step = "serve"       // nadra's driver offers networks
	Verify      Step = "verify"      // canaries have their networks
	Drain       Step = "drain"       // the pods whose networks nadra attached by claims are gone, apart from those that could come back
	Release     Step = "release"     // the label says that the node returns, and what was adopted is Multus' again
	Configure   Step = "configure"   // the container runtime uses Multus again
	Return      Step = "return"      // Multus' pod is ready, the runtime has its configuration, the label is removed, and no pod has claims
	Uncordon    Step = "uncordon"    // pods are scheduled to the node again
	Recover     Step = "recover"     // as many pods are ready as before
)

// The steps of a namespace beside Multus, besides Verify. Each can be repeated, too.
const (
	Record  Step = "record"  // what its pods have is recorded
	Label   Step = "label"   // the namespace is labelled, so that its new pods have the new owner
	Restart Step = "restart" // its workloads have been restarted, and their pods are ready
	Compare Step = "compare" // no pod has lost a network
)

// NodeSteps are the steps of a node in each direction, in order.
var NodeSteps = map[Direction][]Step{
	ToNadra:  {Cordon, Inspect, Assign, Unconfigure, Adopt, Serve, Verify, Uncordon, Recover},
	ToMultus: {Cordon, Drain, Release, Configure, Return, Uncordon, Recover},
}

// namespaceSteps are the steps of a namespace beside Multus in each direction, in order.
var namespaceSteps = map[Direction][]Step{
	ToNadra:  {Record, Verify, Label, Restart, Compare},
	ToMultus: {Record, Label, Restart, Compare},
}

// finished reports whether the move has completed its last step, Recover or Compare.
func (m *Move) finished() bool { return m != nil && (m.Step == Recover || m.Step == Compare) }

// atNadra reports whether the node or namespace has moved to nadra.
func (m *Move) atNadra() bool { return m.finished() && m.Direction == ToNadra }

// atMultus reports whether the node or namespace has moved back to Multus.
func (m *Move) atMultus() bool { return m.finished() && m.Direction == ToMultus }

// begin returns m if it goes in a direction and is not finished, and a new move otherwise.
func (m *Move) begin(d Direction) *Move {
	if m != nil && m.Direction == d && !m.finished() {
		return m
	}
	out := &Move{Direction: d}
	if m != nil && !m.finished() {
		out.WasCordoned, out.Ready = m.WasCordoned, m.Ready // before the interrupted move
	}
	return out
}

// next returns the steps that are left in a direction. A move that turns around starts over, which the steps of both
// directions allow, and so does one that is finished.
func (m *Move) next(steps map[Direction][]Step, d Direction) []Step {
	return steps[d][slices.Index(steps[d], m.begin(d).Step)+1:]
}

// valid reports whether this version can continue the move.
func (m *Move) valid(steps map[Direction][]Step) bool {
	return m != nil && steps[m.Direction] != nil && (m.Step == "" || slices.Contains(steps[m.Direction], m.Step)) &&
		(m.Direction == ToMultus || !m.Drains)
}

// relabel continues a move to nadra after an earlier step if by, the step that labels its object, is completed: the object
// has lost the label, so what the move did since then is undone. It leaves a finished move alone, which begins again in any case.
func (m *Move) relabel(steps map[Direction][]Step, after, by Step) {
	if !slices.Contains(m.next(steps, ToNadra), by) {
		m.Step, m.Restarted = after, nil
	}
}

// NewState returns the state of a plan before its first step.
func NewState() *State {
	return &State{
		APIVersion: APIVersion, Kind: stateKind, Phase: Running,
		Nodes: map[string]*Move{}, Rollouts: map[string]*Move{},
		Namespaces: map[string]namespaceState{}, Multus: map[string]MultusState{},
	}
}

// parseState parses a state as the cluster keeps it.
func parseState(text []byte) (*State, error) {
	s := NewState()
	if err := document.Read(text, APIVersion, stateKind, "use the version of kubectl-nadra that wrote it", s); err != nil {
		return nil, fmt.Errorf("reading the state of the upgrade: %w", err)
	}
	for name, m := range s.Nodes {
		if !m.valid(NodeSteps) {
			return nil, unknownMove("nodes", name)
		}
	}
	for name, m := range s.Rollouts {
		if !m.valid(namespaceSteps) {
			return nil, unknownMove("rollouts", name)
		}
	}
	return s, nil
}

func unknownMove(field, name string) error {
	return fmt.Errorf("reading the state of the upgrade: %s[%s] has an unknown direction or step, or drains: true on the way to nadra: "+
		"use the version of kubectl-nadra that wrote it", field, name)
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

// Lines returns the progress of the plan's nodes or, beside Multus, of its namespaces, in order, and then of those
// that the plan does not have any more.
func (s *State) Lines(p *Plan) []Line {
	moves, steps := s.Nodes, NodeSteps
	if p.BesideMultus {
		moves, steps = s.Rollouts, namespaceSteps
	}
	var out []Line
	seen := map[string]bool{}
	line := func(wave, name string) {
		l := Line{Wave: wave, Node: name, Direction: ToNadra}
		if p.BesideMultus {
			l.Node, l.Namespace = "", name
		}
		if m := moves[name]; m != nil {
			l.Direction, l.Step = m.Direction, m.Step
		}
		l.Of, l.Done = len(steps[l.Direction]), slices.Index(steps[l.Direction], l.Step)+1
		out = append(out, l)
		seen[name] = true
	}
	for _, w := range p.Waves {
		for _, name := range p.Movers(w) {
			line(w.Name, name)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(moves)) {
		if !seen[name] {
			line("", name)
		}
	}
	return out
}

// backwards returns the nodes or, beside Multus, the namespaces that have begun to move and are not back at Multus, the
// last one of the plan first.
func (s *State) backwards(p *Plan) []string {
	moves := s.Nodes
	if p.BesideMultus {
		moves = s.Rollouts
	}
	names := slices.DeleteFunc(slices.Sorted(maps.Keys(moves)), func(name string) bool { return moves[name].atMultus() })
	order := p.Movers(p.Waves...)
	slices.SortStableFunc(names, func(a, b string) int { return slices.Index(order, b) - slices.Index(order, a) })
	return names
}
