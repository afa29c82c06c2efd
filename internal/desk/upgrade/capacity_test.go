package upgrade

import (
	"slices"
	"testing"
)

func TestStranded(t *testing.T) {
	nodes := func(a, b bool) []Node {
		return []Node{{Name: "a", Ready: true, Linux: true, Nadra: a}, {Name: "b", Ready: true, Linux: true, Nadra: b}}
	}
	web := Workload{Kind: "Deployment", Namespace: "core", Name: "web"}
	of := func(node string, nadra bool) Pod {
		return Pod{Namespace: "core", Name: "web", Node: node, Workload: web, Nadra: nadra}
	}
	atMultus := NewState()
	atNadra := NewState()
	atNadra.Namespaces["core"] = namespaceState{}
	pinned, daemon, static := of("a", false), of("a", false), of("a", false)
	pinned.Pinned, daemon.Workload.Kind, static.Static = true, "DaemonSet", true
	for name, tt := range map[string]struct {
		facts     Facts
		state     *State
		direction Direction
		want      bool
	}{
		"the last of Multus', and so is the namespace":      {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}}, atMultus, ToNadra, true},
		"another is Multus'":                                {Facts{Nodes: nodes(false, false), Pods: []Pod{of("a", false)}}, atMultus, ToNadra, false},
		"another is, and is not ready":                      {Facts{Nodes: []Node{{Name: "a"}, {Name: "b", Linux: true}}, Pods: []Pod{of("a", false)}}, atMultus, ToNadra, true},
		"the last of Multus', and the namespace is nadra's": {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}}, atNadra, ToNadra, false},
		"by its label":                                      {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}, Owners: map[string]string{"core": "nadra"}}, atMultus, ToNadra, false},
		"by default":                                        {Facts{Nodes: nodes(false, true), Pods: []Pod{of("a", false)}, DefaultOwner: "nadra"}, atMultus, ToNadra, false},
		"but its pod is Multus' by a label of its own":      {Facts{Nodes: nodes(false, true), Pods: []Pod{pinned}}, atNadra, ToNadra, true},
		"a DaemonSet's comes back on its node":              {Facts{Nodes: nodes(false, true), Pods: []Pod{daemon}}, atMultus, ToNadra, false},
		"a static one is of its node":                       {Facts{Nodes: nodes(false, true), Pods: []Pod{static}}, atMultus, ToNadra, false},
		"no pod is on it":                                   {Facts{Nodes: nodes(false, true), Pods: []Pod{of("b", true)}}, atMultus, ToNadra, false},
		"the last of nadra's, and so is the namespace":      {Facts{Nodes: nodes(true, false), Pods: []Pod{of("a", true)}}, atNadra, ToMultus, true},
		"the last of nadra's, and the namespace is Multus'": {Facts{Nodes: nodes(true, false), Pods: []Pod{of("a", true)}}, atMultus, ToMultus, false},
		"another is nadra's":                                {Facts{Nodes: nodes(true, true), Pods: []Pod{of("a", true)}}, atNadra, ToMultus, false},
	} {
		if got := tt.facts.stranded(tt.state, tt.direction, "a"); (len(got) > 0) != tt.want {
			t.Errorf("%s: stranded pods %v, want some: %t", name, got, tt.want)
		}
	}
}

func TestOverdue(t *testing.T) {
	plan := &Plan{Waves: []Wave{
		{Name: "wave-1", Nodes: []NodeShare{{Name: "a"}}},
		{Name: "wave-2", Nodes: []NodeShare{{Name: "b"}, {Name: "c"}}, Namespaces: []string{"core"}},
		{Name: "wave-3", Nodes: []NodeShare{{Name: "d"}}, Namespaces: []string{"ran"}},
	}}
	moved := &Move{Direction: ToNadra, Step: Recover}
	back := &Move{Direction: ToMultus, Step: Recover}
	for name, tt := range map[string]struct {
		nodes map[string]*Move
		upTo  string
		want  []int
	}{
		"not started":                     {nil, "", nil},
		"the first node is rolled back":   {map[string]*Move{"a": back, "b": moved, "c": moved}, "", []int{1}},
		"up to the first wave":            {map[string]*Move{"a": back, "b": moved, "c": moved}, "wave-1", nil},
		"a node of the second wave, too":  {map[string]*Move{"a": moved, "b": moved, "c": back, "d": moved}, "", []int{0, 2}},
		"a node of the second wave moves": {map[string]*Move{"b": moved, "c": {Direction: ToNadra, Step: Verify}}, "", nil},
		"all nodes have moved":            {map[string]*Move{"a": moved, "b": moved, "c": moved, "d": moved}, "wave-3", []int{0, 1, 2}},
	} {
		s := NewState()
		for name, n := range tt.nodes {
			s.Nodes[name] = n
		}
		if got := plan.overdue(s, tt.upTo); !slices.Equal(got, tt.want) {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}
