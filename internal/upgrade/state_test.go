package upgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestNextSteps(t *testing.T) {
	for _, test := range []struct {
		name string
		node *NodeState
		way  Way
		want []Step
	}{
		{"nobody has begun", nil, Forth, []Step{Cordon, Drain, Release, Unconfigure, Serve, Verify, Uncordon, Settle}},
		{"begun, and no step done", &NodeState{Way: Forth}, Forth, []Step{Cordon, Drain, Release, Unconfigure, Serve, Verify, Uncordon, Settle}},
		{"interrupted", &NodeState{Way: Forth, Step: Unconfigure}, Forth, []Step{Serve, Verify, Uncordon, Settle}},
		{"finished", &NodeState{Way: Forth, Step: Settle}, Forth, []Step{}},
		{"turns around on its way", &NodeState{Way: Forth, Step: Release}, Back, []Step{Cordon, Drain, Configure, Return, Uncordon, Settle}},
		{"on the way back", &NodeState{Way: Back, Step: Configure}, Back, []Step{Return, Uncordon, Settle}},
		{"and forth again", &NodeState{Way: Back, Step: Settle}, Forth, []Step{Cordon, Drain, Release, Unconfigure, Serve, Verify, Uncordon, Settle}},
	} {
		if diff := cmp.Diff(test.want, test.node.Next(test.way)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", test.name, diff)
		}
	}
}

// Multus is away from a node before nadra serves there, and back before nadra's
// pods could be missed; nobody's pods are there while it changes hands.
func TestOrderOfSteps(t *testing.T) {
	at := func(w Way, s Step) int {
		for i, step := range StepsOf(w) {
			if step == s {
				return i
			}
		}
		t.Fatalf("%s has no step %s", w, s)
		return 0
	}
	for _, order := range []struct {
		way   Way
		steps []Step
	}{
		{Forth, []Step{Cordon, Drain, Release, Unconfigure, Verify, Uncordon, Settle}},
		{Back, []Step{Cordon, Drain, Configure, Return, Uncordon, Settle}},
	} {
		for i := 1; i < len(order.steps); i++ {
			if at(order.way, order.steps[i-1]) >= at(order.way, order.steps[i]) {
				t.Errorf("%s: %s is not before %s", order.way, order.steps[i-1], order.steps[i])
			}
		}
	}
}

func TestStateForms(t *testing.T) {
	s := NewState()
	s.Phase, s.Reason = Stopped, "node b: drain: after 5m: …"
	s.Nodes["a"] = &NodeState{Way: Forth, Step: Settle}
	s.Nodes["b"] = &NodeState{Way: Forth, Step: Cordon, WasCordoned: true, Ready: []WorkloadPods{{Workload{"Deployment", "x", "d"}, 2}}}
	s.Nodes["gone"] = &NodeState{Way: Back, Step: Configure}
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
		{"wave-1", "a", Forth, Settle, 8, 8},
		{"wave-2", "b", Forth, Cordon, 1, 8},
		{"wave-2", "c", Forth, "", 0, 8},
		{"", "gone", Back, Configure, 3, 6},
	}
	if diff := cmp.Diff(want, again.Lines(plan)); diff != "" {
		t.Errorf("lines (-want +got):\n%s", diff)
	}
}

func TestParseStateErrors(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{"{", "unexpected end"},
		{`{"apiVersion":"v1","kind":"Pod"}`, `it is "v1" "Pod", not nadra.dev/v1alpha1 UpgradeState`},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"way":"up"}}}`, "nodes[a] is at a step that this version does not know"},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":{"way":"back","step":"serve"}}}`, "nodes[a] is at a step"},
		{`{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradeState","nodes":{"a":null}}`, "nodes[a] is at a step"},
	} {
		if _, err := ParseState([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: error %v, want one with %q", test.text, err, test.want)
		}
	}
}
