package upgrade

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/translate"
)

func TestProblems(t *testing.T) {
	two := []Node{ready("a", ""), ready("b", "")}
	with := func(f Facts, change func(*Facts)) Facts {
		change(&f)
		return f
	}
	for _, test := range []struct {
		name  string
		facts Facts
		o     Options
		want  []string // code, severity and object
	}{
		{"no problem", healthy(two, pods("x", "d", "b", 2)), Options{}, nil},
		{"doctor has a blocker", with(healthy(two), func(f *Facts) { f.Doctor = []string{"dra-api: not served"} }), Options{}, []string{"NADRA-301 blocker"}},
		{"no Multus", with(healthy(two), func(f *Facts) { f.Multus = nil }), Options{}, []string{"NADRA-302 blocker"}},
		{"Argo CD", with(healthy(two), func(f *Facts) { f.Multus[0].ManagedBy = "Argo CD" }), Options{}, []string{"NADRA-303 warning DaemonSet kube-system/kube-multus-ds"}},
		{"a workload that stays", with(healthy(two, pods("x", "d", "b", 1)), func(f *Facts) {
			f.Stays = []Stay{{Workload: Workload{"Deployment", "x", "d"}, Codes: []string{"NADRA-041"}}}
		}), Options{Exclude: []string{"b"}}, []string{"NADRA-314 info Node b", "NADRA-304 warning Deployment x/d"}},
		{"and no node that does", with(healthy(two, pods("x", "d", "b", 1)), func(f *Facts) {
			f.Stays = []Stay{{Workload: Workload{"Deployment", "x", "d"}, Codes: []string{"NADRA-041"}}}
		}), Options{}, []string{"NADRA-305 blocker Deployment x/d"}},
		{
			"a namespace that stays", with(healthy(two, pods("x", "d", "b", 1)), func(f *Facts) { f.Owners["x"] = "multus" }),
			Options{Exclude: []string{"b"}},
			[]string{"NADRA-314 info Node b", "NADRA-316 info Namespace x"},
		},
		{
			"and no node that does", with(healthy(two, pods("x", "d", "b", 1)), func(f *Facts) { f.Owners["x"] = "multus" }),
			Options{},
			[]string{"NADRA-305 blocker Namespace x"},
		},
		{"pods that could not be evicted", with(healthy(two[:1], pods("x", "d", "a", 1), []Pod{{Namespace: "x", Name: "bare", Node: "a"}, {Namespace: "x", Name: "vip", Node: "a", Static: true}}), func(f *Facts) {
			f.Budgets = []Budget{{Namespace: "x", Name: "tight", Expected: 1, Healthy: 1, Pods: []string{"d-a-0"}}}
		}), Options{}, nil},
		{"nadra is not installed", with(healthy(two), func(f *Facts) { f.Installed = false }), Options{}, []string{"NADRA-312 blocker"}},
		{"a driver for all nodes", with(healthy(two), func(f *Facts) { f.Labelled = false }), Options{}, []string{"NADRA-312 blocker"}},
		{"nothing to move", healthy([]Node{{Name: "n", Nadra: true, Ready: true, Linux: true}}), Options{}, []string{"NADRA-313 blocker"}},
	} {
		t.Run(test.name, func(t *testing.T) {
			p := NewPlan(test.facts, test.o)
			var got []string
			blockers, warnings := 0, 0
			for _, one := range p.Findings {
				got = append(got, strings.TrimSpace(fmt.Sprint(one.Code, " ", one.Severity, " ", one.Object)))
				if one.Message == "" || one.Fix == "" {
					t.Errorf("%s has no description or no remedy: %+v", one.Code, one)
				}
				switch one.Severity {
				case translate.Blocker:
					blockers++
				case translate.Warning:
					warnings++
				case translate.Info:
				}
			}
			if diff := cmp.Diff(test.want, got); diff != "" {
				t.Errorf("problems (-want +got):\n%s", diff)
			}
			if p.Summary.Blockers != blockers || p.Summary.Warnings != warnings {
				t.Errorf("summary %+v, want %d blockers and %d warnings", p.Summary, blockers, warnings)
			}
		})
	}
}

// TestCheckOfAnotherCluster refuses a plan none of whose nodes exists.
func TestCheckOfAnotherCluster(t *testing.T) {
	wave := func(nodes ...string) *Plan {
		w := Wave{Name: "wave-1", Namespaces: []string{"x"}}
		for _, n := range nodes {
			w.Nodes = append(w.Nodes, NodeShare{Name: n})
		}
		return &Plan{Source: "cluster staging", Waves: []Wave{w}}
	}
	moved := ready("b", "")
	moved.Nadra = true
	for name, tt := range map[string]struct {
		plan    *Plan
		refused bool
	}{
		"no node exists":       {wave("s-1", "s-2"), true},
		"one exists":           {wave("s-1", "a"), false},
		"one that has moved":   {wave("b", "s-1"), false},
		"a plan without nodes": {wave(), false},
	} {
		got := Check(tt.plan, healthy([]Node{ready("a", ""), moved}))
		refused := slices.ContainsFunc(got, func(p translate.Finding) bool { return p.Code == codeNothing && p.Severity == translate.Blocker })
		if refused != tt.refused {
			t.Errorf("%s: problems %+v", name, got)
		}
	}
}
