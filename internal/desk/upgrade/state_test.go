package upgrade

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/desk/document"
)

func TestNextSteps(t *testing.T) {
	forth, back := NodeSteps[ToNadra], NodeSteps[ToMultus]
	for _, test := range []struct {
		name      string
		move      *Move
		steps     map[Direction][]Step
		direction Direction
		want      []Step
	}{
		{"not started", nil, NodeSteps, ToNadra, forth},
		{"started, no step completed", &Move{Direction: ToNadra}, NodeSteps, ToNadra, forth},
		{"interrupted", &Move{Direction: ToNadra, Step: Unconfigure}, NodeSteps, ToNadra, []Step{Adopt, Serve, Verify, Uncordon, Recover}},
		{"turns around halfway", &Move{Direction: ToNadra, Step: Assign}, NodeSteps, ToMultus, back},
		{"during a rollback", &Move{Direction: ToMultus, Step: Configure, Drains: true}, NodeSteps, ToMultus, []Step{Return, Uncordon, Recover}},
		{"moves again after a rollback", &Move{Direction: ToMultus, Step: Recover, Drains: true}, NodeSteps, ToNadra, forth},
		{"finished, and moves again", &Move{Direction: ToNadra, Step: Recover}, NodeSteps, ToNadra, forth},
		{"a namespace, not started", nil, namespaceSteps, ToNadra, []Step{Record, Verify, Label, Restart, Compare}},
		{"a namespace, interrupted", &Move{Direction: ToNadra, Step: Label}, namespaceSteps, ToNadra, []Step{Restart, Compare}},
		{"a namespace that turns around", &Move{Direction: ToNadra, Step: Label}, namespaceSteps, ToMultus, []Step{Record, Label, Restart, Compare}},
		{"a namespace, finished, whose label was removed", &Move{Direction: ToNadra, Step: Compare}, namespaceSteps, ToNadra, namespaceSteps[ToNadra]},
	} {
		if diff := cmp.Diff(test.want, test.move.next(test.steps, test.direction)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Only the last step of a move is one at which a move is finished.
func TestFinished(t *testing.T) {
	for _, steps := range []map[Direction][]Step{NodeSteps, namespaceSteps} {
		for direction, all := range steps {
			for i, step := range all {
				m := &Move{Direction: direction, Step: step}
				if last := i == len(all)-1; m.finished() != last || m.atNadra() != (last && direction == ToNadra) || m.atMultus() != (last && direction == ToMultus) {
					t.Errorf("%s after %s: finished %t, at nadra %t, at Multus %t", direction, step, m.finished(), m.atNadra(), m.atMultus())
				}
			}
		}
	}
	if m := (*Move)(nil); m.finished() || m.atNadra() || m.atMultus() {
		t.Error("a move that has not begun is finished")
	}
}

// A node that turns around is uncordoned in the end only if it was before the first move.
func TestBeginKeepsTheFirstState(t *testing.T) {
	halfway := &Move{Direction: ToNadra, Step: Assign, WasCordoned: true, Ready: []WorkloadPods{{Pods: 2}}}
	if halfway.begin(ToNadra) != halfway {
		t.Error("a node that goes on has another state")
	}
	want := &Move{Direction: ToMultus, WasCordoned: true, Ready: halfway.Ready}
	if diff := cmp.Diff(want, halfway.begin(ToMultus)); diff != "" {
		t.Errorf("turning around (-want +got):\n%s", diff)
	}
	done := &Move{Direction: ToNadra, Step: Recover, WasCordoned: true}
	if diff := cmp.Diff(&Move{Direction: ToMultus}, done.begin(ToMultus)); diff != "" {
		t.Errorf("after a move (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&Move{Direction: ToNadra}, (*Move)(nil).begin(ToNadra)); diff != "" {
		t.Errorf("a new node (-want +got):\n%s", diff)
	}
}

// Multus leaves a node before nadra serves it, and what it has attached is looked at before
// anything changes. On the way back, Multus has its files before the runtime calls it.
func TestOrderOfSteps(t *testing.T) {
	for _, order := range []struct {
		direction Direction
		steps     []Step
	}{
		{ToNadra, []Step{Cordon, Inspect, Assign, Unconfigure, Adopt, Verify, Uncordon, Recover}},
		{ToMultus, []Step{Cordon, Drain, Release, Configure, Return, Uncordon, Recover}},
	} {
		at := func(d Direction, s Step) int {
			i := slices.Index(NodeSteps[d], s)
			if i < 0 {
				t.Fatalf("%s has no step %s", d, s)
			}
			return i
		}
		for i := 1; i < len(order.steps); i++ {
			if at(order.direction, order.steps[i-1]) >= at(order.direction, order.steps[i]) {
				t.Errorf("%s: %s is not before %s", order.direction, order.steps[i-1], order.steps[i])
			}
		}
	}
}

// The last one of the plan goes back first, and what is back already does not.
func TestBackwards(t *testing.T) {
	on, back := &Move{Direction: ToNadra, Step: Verify}, &Move{Direction: ToMultus, Step: Recover}
	s := NewState()
	s.Nodes = map[string]*Move{"a": on, "b": on, "c": back, "gone": on}
	s.Rollouts = map[string]*Move{"x": {Direction: ToMultus, Step: Compare}, "y": on, "z": {Direction: ToMultus, Step: Record}}
	waves := []Wave{{Nodes: []NodeShare{{Name: "b"}}, Namespaces: []string{"z"}}, {Nodes: []NodeShare{{Name: "c"}, {Name: "a"}}, Namespaces: []string{"y", "x"}}}
	if got := s.backwards(&Plan{Waves: waves}); !slices.Equal(got, []string{"a", "b", "gone"}) {
		t.Errorf("nodes %q", got)
	}
	if got := s.backwards(&Plan{Waves: waves, BesideMultus: true}); !slices.Equal(got, []string{"y", "z"}) {
		t.Errorf("namespaces %q", got)
	}
}

func TestStateForms(t *testing.T) {
	s := NewState()
	s.Phase, s.Reason = Stopped, "node b: inspect: after 5m: …"
	s.Nodes["a"] = &Move{Direction: ToNadra, Step: Recover}
	s.Nodes["b"] = &Move{Direction: ToNadra, Step: Cordon, WasCordoned: true, Ready: []WorkloadPods{{Workload{"Deployment", "x", "d"}, 2}}}
	s.Nodes["gone"] = &Move{Direction: ToMultus, Step: Configure}
	s.Namespaces["x"] = namespaceState{Owner: "multus"}
	s.Multus["kube-system/multus"] = MultusState{Affinity: []byte(`{"nodeAffinity":{}}`)}
	text, err := document.JSON(s, "  ")
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseState(text)
	if err != nil {
		t.Fatal(err)
	}
	text2, err := document.JSON(again, "  ")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(text), string(text2)); diff != "" {
		t.Errorf("read and written again (-want +got):\n%s", diff)
	}
	plan := &Plan{Waves: []Wave{{Name: "wave-1", Nodes: []NodeShare{{Name: "a"}}}, {Name: "wave-2", Nodes: []NodeShare{{Name: "b"}, {Name: "c"}}}}}
	want := []Line{
		{"wave-1", "a", "", ToNadra, Recover, 9, 9},
		{"wave-2", "b", "", ToNadra, Cordon, 1, 9},
		{"wave-2", "c", "", ToNadra, "", 0, 9},
		{"", "gone", "", ToMultus, Configure, 4, 7},
	}
	if diff := cmp.Diff(want, again.Lines(plan)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestParseStateErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"{", "reading the state of the upgrade: reading YAML"},
		{`{"apiVersion":"v1","kind":"Pod"}`, `apiVersion "v1" and kind "Pod" `},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"up"}}}`, "nodes[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"to-multus","step":"serve"}}}`, "nodes[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":null}}`, "nodes[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"to-nadra","step":"drain"}}}`, "nodes[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"to-nadra","step":"assign","drains":true}}}`, "nodes[a] has an unknown direction or step, or drains: true on the way to nadra: use the version of kubectl-nadra that wrote it"},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","rollouts":{"a":{"direction":"to-nadra","step":"fly"}}}`, "rollouts[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","rollouts":{"a":{"direction":"to-nadra","step":"cordon"}}}`, "rollouts[a] "},
	} {
		if _, err := parseState([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.text, err, test.want)
		}
	}
}

// TestStateOfVersionBefore reads what earlier versions have written, whole, and refuses a later version.
func TestStateOfVersionBefore(t *testing.T) {
	states, err := filepath.Glob("../../../testdata/v*/upgrade-state*.json")
	if err != nil || len(states) < 3 {
		t.Fatalf("found only the states %q: %v", states, err)
	}
	for _, before := range states {
		text, err := os.ReadFile(before)
		if err != nil {
			t.Fatal(err)
		}
		s, err := parseState(text)
		if err != nil {
			t.Fatalf("%s: %v", before, err)
		}
		again, err := document.JSON(s, "  ")
		if diff := cmp.Diff(strings.TrimSpace(string(text)), strings.TrimSpace(string(again))); diff != "" || err != nil {
			t.Errorf("%s: %v (-want +got):\n%s", before, err, diff)
		}
		later := strings.Replace(string(text), APIVersion, "nadra.dev/v9", 1)
		if _, err := parseState([]byte(later)); err == nil || !strings.Contains(err.Error(), "nadra.dev/v9") || !strings.Contains(err.Error(), "kubectl-nadra") {
			t.Errorf("%s of a later version: %v", before, err)
		}
	}
}
