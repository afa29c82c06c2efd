package upgrade

import (
	"maps"
	"slices"
)

// The steps of a namespace's move beside Multus, besides Verify. Each can be repeated.
const (
	Record  Step = "record"  // what its pods have is recorded
	Label   Step = "label"   // the namespace is labelled, so that its new pods have the new owner
	Restart Step = "restart" // its workloads have been restarted, and their pods are ready
	Compare Step = "compare" // no pod has lost a network
)

// RolloutState records how far the move of a namespace is.
type RolloutState struct {
	Direction Direction `json:"direction"`
	// Step is the last completed step; empty if none is.
	Step Step `json:"step,omitempty"`
	// Restarted are the workloads whose rollout has begun.
	Restarted []Workload `json:"restarted,omitempty"`
	// Ready is how many pods of each workload were ready before the move.
	Ready []WorkloadPods `json:"ready,omitempty"`
	// Before is the snapshot before the move, compressed. It goes when the move is done.
	Before []byte `json:"before,omitempty"`
}

// RolloutSteps returns the steps of a direction, in order.
func RolloutSteps(d Direction) []Step {
	if d == ToMultus {
		return []Step{Record, Label, Restart, Compare}
	}
	return []Step{Record, Verify, Label, Restart, Compare}
}

// Finished reports whether the namespace has completed all steps of its direction.
func (r *RolloutState) Finished() bool { return r != nil && r.Step == Compare }

// AtNadra reports whether the namespace has moved to nadra.
func (r *RolloutState) AtNadra() bool { return r.Finished() && r.Direction == ToNadra }

// Begin returns the state of a namespace that takes its next step: r itself, or that of a new move.
func (r *RolloutState) Begin(d Direction) *RolloutState {
	if r != nil && r.Direction == d && !r.Finished() {
		return r
	}
	return &RolloutState{Direction: d}
}

// Next returns the steps that are left of the move that r is in.
func (r *RolloutState) Next() []Step {
	steps := RolloutSteps(r.Direction)
	return steps[slices.Index(steps, r.Step)+1:]
}

// valid reports whether direction and step are known.
func (r *RolloutState) valid() bool {
	return r != nil && (r.Direction == ToNadra || r.Direction == ToMultus) && (r.Step == "" || slices.Contains(RolloutSteps(r.Direction), r.Step))
}

// rolloutLines returns the progress of the plan's namespaces, in order, and then of namespaces that the plan does
// not have any more.
func (s *State) rolloutLines(p *Plan) []Line {
	var out []Line
	seen := map[string]bool{}
	line := func(wave, namespace string) {
		l := Line{Wave: wave, Namespace: namespace, Direction: ToNadra}
		if r := s.Rollouts[namespace]; r != nil {
			l.Direction, l.Step = r.Direction, r.Step
		}
		steps := RolloutSteps(l.Direction)
		l.Of, l.Done = len(steps), slices.Index(steps, l.Step)+1
		out = append(out, l)
		seen[namespace] = true
	}
	for _, w := range p.Waves {
		for _, ns := range w.Namespaces {
			line(w.Name, ns)
		}
	}
	for _, ns := range slices.Sorted(maps.Keys(s.Rollouts)) {
		if !seen[ns] {
			line("", ns)
		}
	}
	return out
}
