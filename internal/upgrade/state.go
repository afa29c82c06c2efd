package upgrade

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// StateKind is the kind of State.
const StateKind = "UpgradeState"

// State is how far a plan has been carried out. The cluster keeps it, so that
// anybody can go on after an interruption at any point.
type State struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Phase      Phase  `json:"phase"`
	// Reason is why it does not go on, in words.
	Reason string `json:"reason,omitempty"`
	// Target is what is being rolled back, as node/NAME, namespace/NAME,
	// Deployment/NAMESPACE/NAME, StatefulSet/NAMESPACE/NAME or all; empty where
	// nothing is.
	Target string `json:"target,omitempty"`
	// Nodes are those that somebody has begun with.
	Nodes map[string]*NodeState `json:"nodes,omitempty"`
	// Namespaces are those that were labelled, with the label that they had.
	Namespaces map[string]NamespaceState `json:"namespaces,omitempty"`
	// Multus are DaemonSets that were kept off nadra's nodes, as they were, by
	// namespace/name.
	Multus map[string]MultusState `json:"multus,omitempty"`
}

// Phase is what is going on.
type Phase string

// The phases.
const (
	Running     Phase = "running"
	Paused      Phase = "paused"
	Stopped     Phase = "stopped" // a gate did not open
	Done        Phase = "done"
	RollingBack Phase = "rolling back"
	RolledBack  Phase = "rolled back"
)

// NodeState is how far one node is.
type NodeState struct {
	// Way is in which direction the node goes.
	Way Way `json:"way"`
	// Step is the last one that is done; empty where none is.
	Step Step `json:"step,omitempty"`
	// WasCordoned says that somebody else had cordoned it.
	WasCordoned bool `json:"wasCordoned,omitempty"`
	// Ready is how many pods of each workload that is disturbed were ready before.
	Ready []WorkloadPods `json:"ready,omitempty"`
}

// NamespaceState is what a namespace was.
type NamespaceState struct {
	// Owner was the value of its label nadra.dev/owner; empty where it had none.
	Owner string `json:"owner,omitempty"`
}

// MultusState is what a DaemonSet was.
type MultusState struct {
	// Affinity is that of its pod template, and UpdateStrategy its own; as JSON,
	// empty where it had none.
	Affinity       json.RawMessage `json:"affinity,omitempty"`
	UpdateStrategy json.RawMessage `json:"updateStrategy,omitempty"`
}

// Way is a direction.
type Way string

// The ways.
const (
	Forth Way = "forth" // from Multus to nadra
	Back  Way = "back"
)

// Step is something that is done with a node.
type Step string

// The steps. Each can be done again where it was interrupted.
const (
	Cordon      Step = "cordon"      // no pod comes any more
	Drain       Step = "drain"       // pods with networks are gone, and so are their networks
	Release     Step = "release"     // the label says that it is nadra's; Multus' pod is gone
	Unconfigure Step = "unconfigure" // the runtime asks Multus no more
	Serve       Step = "serve"       // nadra's driver offers networks
	Verify      Step = "verify"      // canaries have their networks
	Configure   Step = "configure"   // the runtime asks Multus again
	Return      Step = "return"      // the label is gone; Multus' pod is ready, and the runtime has its configuration
	Uncordon    Step = "uncordon"    // pods may come
	Settle      Step = "settle"      // as many pods are ready as were before
)

// StepsOf are the steps of a way, in order.
func StepsOf(w Way) []Step {
	if w == Back {
		return []Step{Cordon, Drain, Configure, Return, Uncordon, Settle}
	}
	return []Step{Cordon, Drain, Release, Unconfigure, Serve, Verify, Uncordon, Settle}
}

// Finished reports whether the node has taken all steps of its way.
func (n *NodeState) Finished() bool { return n != nil && n.Step == Settle }

// Next are the steps that are left of a way. Who turns around begins anew: the
// steps of both ways bear it.
func (n *NodeState) Next(w Way) []Step {
	steps := StepsOf(w)
	if n == nil || n.Way != w || n.Step == "" {
		return steps
	}
	return steps[slices.Index(steps, n.Step)+1:]
}

// NewState is the state of a plan with which nobody has begun.
func NewState() *State {
	return &State{
		APIVersion: APIVersion, Kind: StateKind, Phase: Running,
		Nodes: map[string]*NodeState{}, Namespaces: map[string]NamespaceState{}, Multus: map[string]MultusState{},
	}
}

// ParseState reads what JSON has written.
func ParseState(text []byte) (*State, error) {
	s := NewState()
	if err := json.Unmarshal(text, s); err != nil {
		return nil, fmt.Errorf("reading the state of the upgrade: %w", err)
	}
	if s.APIVersion != APIVersion || s.Kind != StateKind {
		return nil, fmt.Errorf("reading the state of the upgrade: it is %q %q, not %s %s", s.APIVersion, s.Kind, APIVersion, StateKind)
	}
	for name, n := range s.Nodes {
		if n == nil || n.Way != Forth && n.Way != Back || n.Step != "" && !slices.Contains(StepsOf(n.Way), n.Step) {
			return nil, fmt.Errorf("reading the state of the upgrade: nodes[%s] is at a step that this version does not know: use the version that has written it", name)
		}
	}
	return s, nil
}

// JSON returns the state as the cluster keeps it.
func (s *State) JSON() ([]byte, error) {
	text, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the state of the upgrade: %w", err)
	}
	return text, nil
}

// Line is one node of a progress report.
type Line struct {
	Wave, Node string
	Way        Way
	// Step is the last that is done, and Of how many there are; Done how many are.
	Step     Step
	Done, Of int
}

// Lines are the nodes of a plan with how far they are, in order, and then those
// that are in no plan any more.
func (s *State) Lines(p *Plan) []Line {
	var out []Line
	seen := map[string]bool{}
	line := func(wave, node string) {
		l := Line{Wave: wave, Node: node, Way: Forth}
		if n := s.Nodes[node]; n != nil {
			l.Way, l.Step = n.Way, n.Step
		}
		steps := StepsOf(l.Way)
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
