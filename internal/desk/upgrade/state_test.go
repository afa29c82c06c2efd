package upgrade

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNextSteps(t *testing.T) {
	adopts := []Step{Cordon, Inspect, Assign, Unconfigure, Adopt, Serve, Verify, Uncordon, Recover}
	drains := []Step{Cordon, Drain, Assign, Unconfigure, Adopt, Serve, Verify, Uncordon, Recover}
	back := []Step{Cordon, Drain, Release, Configure, Return, Uncordon, Recover}
	for _, test := range []struct {
		name      string
		node      *NodeState
		direction Direction
		drains    bool
		want      []Step
	}{
		{"not started", nil, ToNadra, false, adopts},
		{"not started, drained", nil, ToNadra, true, drains},
		{"started, no step completed", &NodeState{Direction: ToNadra}, ToNadra, false, adopts},
		{"interrupted", &NodeState{Direction: ToNadra, Step: Unconfigure}, ToNadra, false, []Step{Adopt, Serve, Verify, Uncordon, Recover}},
		{"interrupted, drained", &NodeState{Direction: ToNadra, Step: Drain, Drains: true}, ToNadra, true, []Step{Assign, Unconfigure, Adopt, Serve, Verify, Uncordon, Recover}},
		{"drained from now on", &NodeState{Direction: ToNadra, Step: Unconfigure}, ToNadra, true, drains},
		{"finished", &NodeState{Direction: ToNadra, Step: Recover}, ToNadra, false, []Step{}},
		{"finished by a drain", &NodeState{Direction: ToNadra, Step: Recover, Drains: true}, ToNadra, false, []Step{}},
		{"turns around halfway", &NodeState{Direction: ToNadra, Step: Assign}, ToMultus, false, back},
		{"during a rollback", &NodeState{Direction: ToMultus, Step: Configure, Drains: true}, ToMultus, false, []Step{Return, Uncordon, Recover}},
		{"moves again after a rollback", &NodeState{Direction: ToMultus, Step: Recover, Drains: true}, ToNadra, false, adopts},
	} {
		if diff := cmp.Diff(test.want, test.node.Next(test.direction, test.drains)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// A node that turns around is uncordoned in the end only if it was before the first move.
func TestBeginKeepsTheFirstState(t *testing.T) {
	halfway := &NodeState{Direction: ToNadra, Step: Assign, WasCordoned: true, Ready: []WorkloadPods{{Pods: 2}}}
	if halfway.Begin(ToNadra, false) != halfway {
		t.Error("a node that goes on has another state")
	}
	want := &NodeState{Direction: ToMultus, Drains: true, WasCordoned: true, Ready: halfway.Ready}
	if diff := cmp.Diff(want, halfway.Begin(ToMultus, false)); diff != "" {
		t.Errorf("turning around (-want +got):\n%s", diff)
	}
	done := &NodeState{Direction: ToNadra, Step: Recover, WasCordoned: true}
	if diff := cmp.Diff(&NodeState{Direction: ToMultus, Drains: true}, done.Begin(ToMultus, false)); diff != "" {
		t.Errorf("after a move (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(&NodeState{Direction: ToNadra}, (*NodeState)(nil).Begin(ToNadra, false)); diff != "" {
		t.Errorf("a new node (-want +got):\n%s", diff)
	}
}

// Multus leaves a node before nadra serves it, and what it has attached is looked at before
// anything changes. On the way back, Multus has its files before the runtime calls it.
func TestOrderOfSteps(t *testing.T) {
	for _, order := range []struct {
		direction Direction
		drains    bool
		steps     []Step
	}{
		{ToNadra, true, []Step{Cordon, Drain, Assign, Unconfigure, Adopt, Verify, Uncordon, Recover}},
		{ToNadra, false, []Step{Cordon, Inspect, Assign, Unconfigure, Adopt, Verify, Uncordon, Recover}},
		{ToMultus, false, []Step{Cordon, Drain, Release, Configure, Return, Uncordon, Recover}},
	} {
		at := func(d Direction, s Step) int {
			i := slices.Index(StepsOf(d, order.drains), s)
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

func TestStateForms(t *testing.T) {
	s := NewState()
	s.Phase, s.Reason = Stopped, "node b: drain: after 5m: …"
	s.Nodes["a"] = &NodeState{Direction: ToNadra, Step: Recover}
	s.Nodes["b"] = &NodeState{Direction: ToNadra, Step: Cordon, WasCordoned: true, Ready: []WorkloadPods{{Workload{"Deployment", "x", "d"}, 2}}}
	s.Nodes["gone"] = &NodeState{Direction: ToMultus, Step: Configure}
	s.Namespaces["x"] = NamespaceState{Owner: "multus"}
	s.Multus["kube-system/multus"] = MultusState{Affinity: []byte(`{"nodeAffinity":{}}`)}
	text, err := s.JSON()
	if err != nil {
		t.Fatal(err)
	}
	again, err := ParseState(text)
	if err != nil {
		t.Fatal(err)
	}
	text2, err := again.JSON()
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
		{"{", "unexpected end"},
		{`{"apiVersion":"v1","kind":"Pod"}`, `apiVersion "v1" and kind "Pod" `},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"up"}}}`, "nodes[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"to-multus","step":"serve"}}}`, "nodes[a] "},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":null}}`, "nodes[a] "},
	} {
		if _, err := ParseState([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.text, err, test.want)
		}
	}
}

// TestStateOfVersionBefore reads what the version before has written, whole, and refuses a later version.
func TestStateOfVersionBefore(t *testing.T) {
	text, err := os.ReadFile("../../../testdata/v0.1.0-rc.1/upgrade-state.json")
	if err != nil {
		t.Fatal(err)
	}
	s, err := ParseState(text)
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.JSON()
	if diff := cmp.Diff(strings.TrimSpace(string(text)), string(again)); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
	later := strings.Replace(string(text), APIVersion, "nadra.dev/v9", 1)
	if _, err := ParseState([]byte(later)); err == nil || !strings.Contains(err.Error(), "nadra.dev/v9") || !strings.Contains(err.Error(), "kubectl-nadra") {
		t.Errorf("a later version: %v", err)
	}
}
