package upgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNextSteps(t *testing.T) {
	for _, test := range []struct {
		name      string
		node      *NodeState
		direction Direction
		want      []Step
	}{
		{"not started", nil, ToNadra, []Step{Cordon, Drain, Assign, Unconfigure, Serve, Verify, Uncordon, Recover}},
		{"started, no step completed", &NodeState{Direction: ToNadra}, ToNadra, []Step{Cordon, Drain, Assign, Unconfigure, Serve, Verify, Uncordon, Recover}},
		{"interrupted", &NodeState{Direction: ToNadra, Step: Unconfigure}, ToNadra, []Step{Serve, Verify, Uncordon, Recover}},
		{"finished", &NodeState{Direction: ToNadra, Step: Recover}, ToNadra, []Step{}},
		{"turns around halfway", &NodeState{Direction: ToNadra, Step: Assign}, ToMultus, []Step{Cordon, Drain, Configure, Return, Uncordon, Recover}},
		{"during a rollback", &NodeState{Direction: ToMultus, Step: Configure}, ToMultus, []Step{Return, Uncordon, Recover}},
		{"moves again after a rollback", &NodeState{Direction: ToMultus, Step: Recover}, ToNadra, []Step{Cordon, Drain, Assign, Unconfigure, Serve, Verify, Uncordon, Recover}},
	} {
		if diff := cmp.Diff(test.want, test.node.Next(test.direction)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Multus leaves a node before nadra serves it, and no pod with networks runs on the
// node while its owner changes.
func TestOrderOfSteps(t *testing.T) {
	at := func(d Direction, s Step) int {
		for i, step := range StepsOf(d) {
			if step == s {
				return i
			}
		}
		t.Fatalf("%s has no step %s", d, s)
		return 0
	}
	for _, order := range []struct {
		direction Direction
		steps     []Step
	}{
		{ToNadra, []Step{Cordon, Drain, Assign, Unconfigure, Verify, Uncordon, Recover}},
		{ToMultus, []Step{Cordon, Drain, Configure, Return, Uncordon, Recover}},
	} {
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
		{"wave-1", "a", ToNadra, Recover, 8, 8},
		{"wave-2", "b", ToNadra, Cordon, 1, 8},
		{"wave-2", "c", ToNadra, "", 0, 8},
		{"", "gone", ToMultus, Configure, 3, 6},
	}
	if diff := cmp.Diff(want, again.Lines(plan)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestParseStateErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"{", "unexpected end"},
		{`{"apiVersion":"v1","kind":"Pod"}`, `apiVersion "v1" and kind "Pod" are not nadra.dev/v1alpha1 UpgradeState`},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"up"}}}`, "nodes[a] has an unknown direction or step"},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"direction":"to-multus","step":"serve"}}}`, "nodes[a] has an unknown direction or step"},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":null}}`, "nodes[a] has an unknown direction or step"},
	} {
		if _, err := ParseState([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.text, err, test.want)
		}
	}
}
