package upgrade

import "slices"

// WaveStep is a step of a wave.
type WaveStep string

// The steps of a wave. Their hooks may be none.
const (
	WavePrepared WaveStep = "prepared" // the hook before the wave has run
	WaveMoved    WaveStep = "moved"    // all of its nodes and namespaces have moved
	WaveDone     WaveStep = "done"     // the hook after the wave has run
)

// waveSteps are the steps, in order.
var waveSteps = []WaveStep{WavePrepared, WaveMoved, WaveDone}

// WaveState records how far a wave is.
type WaveState struct {
	// Step is the last completed step.
	Step WaveStep `json:"step"`
}

// Underway returns the last completed step of a wave that has begun and is not done, and
// otherwise an empty one: a wave that is done begins again if something of it must move.
func (s *State) Underway(wave string) WaveStep {
	if w := s.Waves[wave]; w != nil && w.Step != WaveDone {
		return w.Step
	}
	return ""
}

// Complete records that a wave has completed a step.
func (s *State) Complete(wave string, step WaveStep) { s.Waves[wave] = &WaveState{Step: step} }

// Reopen forgets how far the waves are of which a rollback gives something back, so that
// their hooks run again when it moves again. kind is a target's: node, namespace or all.
func (s *State) Reopen(p *Plan, kind, name string) {
	for _, w := range p.Waves {
		if kind == "all" ||
			kind == "node" && slices.ContainsFunc(w.Nodes, func(n NodeShare) bool { return n.Name == name }) ||
			kind == "namespace" && slices.Contains(w.Namespaces, name) {
			delete(s.Waves, w.Name)
		}
	}
}

// Begun reports whether a node is on its way to nadra: it has taken a step, or began to.
func (s *State) Begun(node string) bool {
	n := s.Nodes[node]
	return n != nil && n.Direction == ToNadra && !n.Finished()
}

// BegunNodes returns the nodes on their way to nadra of the waves up to upTo, or of all
// waves if upTo is empty, in the plan's order.
func (s *State) BegunNodes(p *Plan, upTo string) []string {
	var out []string
	for _, w := range p.Waves {
		for _, n := range w.Nodes {
			if s.Begun(n.Name) {
				out = append(out, n.Name)
			}
		}
		if w.Name == upTo {
			break
		}
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
