package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// ready returns a ready node of a failure domain.
func ready(name, domain string) Node {
	return Node{Name: name, Domain: domain, Ready: true, Linux: true}
}

// pods returns n pods of a Deployment on a node.
func pods(namespace, deployment, node string, n int) []Pod {
	var out []Pod
	for i := range n {
		out = append(out, Pod{
			Namespace: namespace, Name: fmt.Sprintf("%s-%s-%d", deployment, node, i), Node: node,
			Workload: Workload{Kind: "Deployment", Namespace: namespace, Name: deployment},
		})
	}
	return out
}

// healthy returns facts without problems.
func healthy(nodes []Node, running ...[]Pod) Facts {
	return Facts{
		Nodes: nodes, Pods: slices.Concat(running...), DefaultOwner: "multus", Owners: map[string]string{},
		Installed: true, Labelled: true, Multus: []Multus{{MultusRef: MultusRef{"kube-system", "kube-multus-ds"}}},
	}
}

// short abbreviates a plan's waves to "nodes < namespaces".
func short(p *Plan) []string {
	var out []string
	for _, w := range p.Waves {
		var nodes []string
		for _, n := range w.Nodes {
			nodes = append(nodes, n.Name)
		}
		out = append(out, strings.TrimSuffix(strings.Join(nodes, " ")+" < "+strings.Join(w.Namespaces, " "), " < "))
	}
	return out
}

func TestWaves(t *testing.T) {
	four := []Node{ready("a1", "a"), ready("a2", "a"), ready("b1", "b"), ready("b2", "b")}
	for _, test := range []struct {
		name  string
		facts Facts
		o     Options
		want  []string
	}{
		{
			"one node at a time, the least disturbed first",
			healthy(four, pods("x", "d", "a1", 3), pods("x", "d", "b1", 1), pods("x", "d", "b2", 2)),
			Options{},
			[]string{"a2", "a1", "b1", "b2 < x"},
		},
		{
			"a wave is of one failure domain, and the first of one node",
			healthy(four),
			Options{MaxUnavailable: 3},
			[]string{"a1", "a2", "b1 b2"},
		},
		{
			"first and excluded nodes",
			healthy(four),
			Options{First: []string{"b2"}, Exclude: []string{"a1"}},
			[]string{"b2", "a2", "b1"},
		},
		{
			"nodes that have moved, are down or do not run Linux do not move",
			healthy([]Node{{Name: "n", Nadra: true, Ready: true, Linux: true}, {Name: "down", Linux: true}, {Name: "win", Ready: true}, ready("a", "")}),
			Options{},
			[]string{"a"},
		},
		{
			"no budget keeps nodes apart",
			func() Facts {
				f := healthy([]Node{ready("a", ""), ready("b", ""), ready("c", "")}, pods("x", "db", "b", 1), pods("x", "db", "c", 1))
				f.Budgets = []Budget{{Namespace: "x", Name: "db", Expected: 2, Healthy: 2, Pods: []string{"db-b-0", "db-c-0"}}}
				return f
			}(),
			Options{MaxUnavailable: 3},
			[]string{"a", "b c < x"},
		},
		{
			"a single node gets all namespaces",
			healthy([]Node{ready("only", "")}, pods("x", "d", "only", 2)),
			Options{},
			[]string{"only < x"},
		},
		{
			"namespaces follow the nodes, small ones first",
			healthy([]Node{ready("a", ""), ready("b", ""), ready("c", ""), ready("d", "")},
				pods("small", "d", "a", 1), pods("middle", "d", "b", 2), pods("big", "d", "c", 5), pods("big", "d", "d", 4)),
			Options{},
			[]string{"a", "b < middle small", "d", "c < big"},
		},
		{
			"namespaces with an owner label stay as they are",
			func() Facts {
				f := healthy(four[:2], pods("ours", "d", "a1", 1), pods("theirs", "d", "a1", 1), pods("open", "d", "a1", 1))
				f.Owners = map[string]string{"ours": "nadra", "theirs": "multus"}
				return f
			}(),
			Options{Exclude: nil},
			[]string{"a2", "a1 < open"},
		},
		{
			"a workload that stays holds its namespace back, unless its pods are labelled",
			func() Facts {
				pinned := pods("y", "old", "a1", 1)
				pinned[0].Pinned = true
				f := healthy(four[:3], pods("x", "old", "a1", 1), pinned)
				f.Stays = []Stay{{Workload: Workload{"Deployment", "x", "old"}}, {Workload: Workload{"Deployment", "y", "old"}, Pinned: true}}
				return f
			}(),
			Options{Exclude: []string{"b1"}},
			[]string{"a2", "a1 < y"},
		},
		{
			"the cluster's default is nadra",
			func() Facts {
				f := healthy(four[:2], pods("x", "d", "a1", 1))
				f.DefaultOwner = "nadra"
				return f
			}(),
			Options{},
			[]string{"a2", "a1"},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			if diff := cmp.Diff(test.want, short(NewPlan(test.facts, test.o))); diff != "" {
				t.Errorf("waves (-want +got):\n%s", diff)
			}
		})
	}
}

// Except before the last wave, nadra's share of the pods never exceeds its share of the
// nodes. In the end everything has moved.
func TestNamespacesFollowNodes(t *testing.T) {
	for nodes := 1; nodes < 9; nodes++ {
		for namespaces := 0; namespaces < 9; namespaces++ {
			f := healthy(nil)
			total := 0
			for i := range nodes {
				f.Nodes = append(f.Nodes, ready(fmt.Sprintf("n%d", i), ""))
			}
			size := map[string]int{}
			for i := range namespaces {
				name := fmt.Sprintf("ns%d", i)
				size[name] = i*i%7 + 1
				total += size[name]
				f.Pods = append(f.Pods, pods(name, "d", f.Nodes[i%nodes].Name, size[name])...)
			}
			p := NewPlan(f, Options{MaxUnavailable: 2})
			served, moved, seen := 0, 0, 0
			for i, w := range p.Waves {
				for _, ns := range w.Namespaces {
					served += size[ns]
					seen++
				}
				if i < len(p.Waves)-1 && served*nodes > total*moved {
					t.Errorf("%d nodes, %d namespaces: wave %d begins with %d of %d pods on %d nodes: %q", nodes, namespaces, i+1, served, total, moved, short(p))
				}
				moved += len(w.Nodes)
			}
			if moved != nodes || seen != namespaces || served != total {
				t.Errorf("%d nodes, %d namespaces: %d and %d move: %q", nodes, namespaces, moved, seen, short(p))
			}
		}
	}
}
