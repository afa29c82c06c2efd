package upgrade

import (
	"slices"
	"strings"
	"testing"
)

func TestWaveStates(t *testing.T) {
	plan := &Plan{Waves: []Wave{
		{Name: "wave-1", Nodes: []NodeShare{{Name: "a"}, {Name: "b"}}},
		{Name: "wave-2", Nodes: []NodeShare{{Name: "c"}}, Namespaces: []string{"core"}},
	}}
	s := NewState()
	s.Nodes["a"] = &NodeState{Direction: ToNadra, Step: Recover}
	s.Nodes["b"] = &NodeState{Direction: ToNadra}
	s.Nodes["c"] = &NodeState{Direction: ToMultus, Step: Recover}
	if got := s.BegunNodes(plan, ""); !slices.Equal(got, []string{"b"}) {
		t.Errorf("begun %q", got)
	}
	s.Nodes["c"].Direction, s.Nodes["c"].Step = ToNadra, Drain
	if all, first := s.BegunNodes(plan, ""), s.BegunNodes(plan, "wave-1"); !slices.Equal(all, []string{"b", "c"}) || !slices.Equal(first, []string{"b"}) {
		t.Errorf("begun %q, up to wave-1 %q", all, first)
	}
	if got := s.Remaining(plan.Waves[0]); !slices.Equal(got, []string{"b"}) {
		t.Errorf("remaining %q", got)
	}
	for _, step := range waveSteps {
		s.Complete("wave-1", step)
		if want := map[WaveStep]WaveStep{WavePrepared: WavePrepared, WaveMoved: WaveMoved}[step]; s.Underway("wave-1") != want {
			t.Errorf("after %s: underway %q, want %q", step, s.Underway("wave-1"), want)
		}
	}
	for _, tt := range []struct {
		kind, name string
		want       []string
	}{
		{"node", "c", []string{"wave-1"}},
		{"namespace", "core", []string{"wave-1"}},
		{"node", "elsewhere", []string{"wave-1", "wave-2"}},
		{"Deployment", "core/upf", []string{"wave-1", "wave-2"}},
		{"all", "", nil},
	} {
		s.Complete("wave-1", WavePrepared)
		s.Complete("wave-2", WaveDone)
		s.Reopen(plan, tt.kind, tt.name)
		var got []string
		for _, w := range plan.Waves {
			if s.Waves[w.Name] != nil {
				got = append(got, w.Name)
			}
		}
		if !slices.Equal(got, tt.want) {
			t.Errorf("after the rollback of %s %s: %q, want %q", tt.kind, tt.name, got, tt.want)
		}
	}
	if _, err := ParseState([]byte(`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","waves":{"w":{"step":"up"}}}`)); err == nil || !strings.Contains(err.Error(), "waves[w] has an unknown step") {
		t.Errorf("error %v", err)
	}
}
