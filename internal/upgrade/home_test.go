package upgrade

import (
	"slices"
	"testing"
)

func TestStranded(t *testing.T) {
	nodes := func(a, b bool) []Node {
		return []Node{{Name: "a", Ready: true, Linux: true, Nadra: a}, {Name: "b", Ready: true, Linux: true, Nadra: b}}
	}
	made := Workload{Kind: "Deployment", Namespace: "core", Name: "web"}
	of := func(node string, nadra bool) Pod {
		return Pod{Namespace: "core", Name: "web", Node: node, Workload: made, Nadra: nadra}
	}
	given := NewState()
	taken := NewState()
	taken.Namespaces["core"] = NamespaceState{}
	pinned, daemon, static := of("a", false), of("a", false), of("a", false)
	pinned.Pinned, daemon.Workload.Kind, static.Static = true, "DaemonSet", true
	for name, tt := range map[string]struct {
		facts Facts
		state *State
		way   Way
		want  bool
	}{
		"the last of Multus', and so is the namespace":      {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}}, given, Forth, true},
		"another is Multus'":                                {Facts{Nodes: nodes(false, false), Pods: []Pod{of("a", false)}}, given, Forth, false},
		"another is, and is not ready":                      {Facts{Nodes: []Node{{Name: "a"}, {Name: "b", Linux: true}}, Pods: []Pod{of("a", false)}}, given, Forth, true},
		"the last of Multus', and the namespace is nadra's": {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}}, taken, Forth, false},
		"by its label":                                      {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}, Owners: map[string]string{"core": "nadra"}}, given, Forth, false},
		"by default":                                        {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}, DefaultOwner: "nadra"}, given, Forth, false},
		"but its pod is Multus' by a label of its own":      {Facts{Nodes: nodes(false, true), Pods: []Pod{pinned}}, taken, Forth, true},
		"a DaemonSet's comes back on its node":              {Facts{Nodes: nodes(false, true), Pods: []Pod{daemon}}, given, Forth, false},
		"a static one is of its node":                       {Facts{Nodes: nodes(false, true), Pods: []Pod{static}}, given, Forth, false},
		"nobody is on it":                                   {Facts{Nodes: nodes(false, true), Pods: []Pod{of("b", true)}}, given, Forth, false},
		"the last of nadra's, and so is the namespace":      {Facts{Nodes: nodes(true, false), Pods: []Pod{of("a", true)}}, taken, Back, true},
		"the last of nadra's, and the namespace is Multus'": {Facts{Nodes: nodes(true, false), Pods: []Pod{of("a", true)}}, given, Back, false},
		"another is nadra's":                                {Facts{Nodes: nodes(true, true), Pods: []Pod{of("a", true)}}, taken, Back, false},
	} {
		if got := tt.facts.Stranded(tt.state, tt.way, "a"); (len(got) > 0) != tt.want {
			t.Errorf("%s: stranded are %v", name, got)
		}
	}
}

func TestOverdue(t *testing.T) {
	plan := &Plan{Waves: []Wave{
		{Name: "wave-1", Nodes: []NodeShare{{Name: "a"}}},
		{Name: "wave-2", Nodes: []NodeShare{{Name: "b"}, {Name: "c"}}, Namespaces: []string{"core"}},
		{Name: "wave-3", Nodes: []NodeShare{{Name: "d"}}, Namespaces: []string{"ran"}},
	}}
	gone := &NodeState{Way: Forth, Step: Settle}
	back := &NodeState{Way: Back, Step: Settle}
	for name, tt := range map[string]struct {
		nodes map[string]*NodeState
		upTo  string
		want  []string
	}{
		"nobody has begun":           {nil, "", nil},
		"the first node is back":     {map[string]*NodeState{"a": back, "b": gone, "c": gone}, "", []string{"core"}},
		"up to the first wave":       {map[string]*NodeState{"a": back, "b": gone, "c": gone}, "wave-1", nil},
		"one of the wave's, too":     {map[string]*NodeState{"a": gone, "b": gone, "c": back, "d": gone}, "", []string{"ran"}},
		"one of the wave's is going": {map[string]*NodeState{"b": gone, "c": {Way: Forth, Step: Verify}}, "", nil},
		"all have gone":              {map[string]*NodeState{"a": gone, "b": gone, "c": gone, "d": gone}, "wave-3", []string{"core", "ran"}},
	} {
		s := NewState()
		for name, n := range tt.nodes {
			s.Nodes[name] = n
		}
		if got := plan.Overdue(s, tt.upTo); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %q, want %q", name, got, tt.want)
		}
	}
}
