package upgrade

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// besideFacts returns the facts of a cluster in which Multus stays on the nodes: n pods in each namespace, of a
// Deployment.
func besideFacts(namespaces map[string]int) Facts {
	f := Facts{DefaultOwner: "multus", Owners: map[string]string{}, Installed: true, BesideMultus: true, Multus: []Multus{{MultusRef: MultusRef{"kube-system", "multus"}}}}
	for ns, n := range namespaces {
		w := Workload{"Deployment", ns, "web"}
		f.Pods = append(f.Pods, pods(ns, "web", "n1", n)...)
		f.Controllers = append(f.Controllers, Controller{Workload: w, Down: 1})
	}
	return f
}

func TestRolloutWaves(t *testing.T) {
	four := map[string]int{"a": 4, "b": 1, "c": 2, "d": 3}
	nadras := func(f Facts, ns string) Facts {
		f.Owners[ns] = "nadra"
		for i := range f.Pods {
			f.Pods[i].Unclaimed = f.Pods[i].Unclaimed || f.Pods[i].Namespace == ns
		}
		return f
	}
	for _, tt := range []struct {
		name  string
		facts Facts
		o     Options
		want  []string
	}{
		{"one at a time, the smallest first", besideFacts(four), Options{}, []string{"b", "c", "d", "a"}},
		{"the first wave has one", besideFacts(four), Options{MaxUnavailable: 2}, []string{"b", "c d", "a"}},
		{"chosen ones first, others not at all", besideFacts(four), Options{First: []string{"a"}, Exclude: []string{"c"}}, []string{"a", "b", "d"}},
		{"one that is nadra's", nadras(besideFacts(four), "b"), Options{}, []string{"c", "d", "a"}},
		{"one whose pods are older than its label", with(besideFacts(four), func(f *Facts) { f.Owners["b"] = "nadra" }), Options{}, []string{"b", "c", "d", "a"}},
		{"one whose label leaves it to Multus", with(besideFacts(four), func(f *Facts) { f.Owners["b"] = "multus" }), Options{}, []string{"c", "d", "a"}},
		{"one that a workload holds back", with(besideFacts(four), func(f *Facts) {
			f.Stays = []Stay{{Workload: Workload{"Deployment", "b", "x"}, Codes: []string{"NADRA-029"}}}
		}), Options{}, []string{"c", "d", "a"}},
		{"one with a workload that the webhook leaves to Multus", with(besideFacts(four), func(f *Facts) { f.Stays = []Stay{{Workload: Workload{"Deployment", "b", "x"}, Unserved: true}} }), Options{}, []string{"b", "c", "d", "a"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPlan(tt.facts, tt.o)
			var got []string
			for _, w := range p.Waves {
				got = append(got, strings.Join(w.Namespaces, " "))
				if len(w.Nodes) > 0 || len(w.Rollouts) != len(w.Namespaces) {
					t.Errorf("%+v", w)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" || !p.BesideMultus {
				t.Error(diff)
			}
		})
	}
}

// TestRollouts checks which pods a rollout moves, and which it does not.
func TestRollouts(t *testing.T) {
	f := besideFacts(map[string]int{"a": 2})
	add := func(name, kind string, change func(*Pod)) {
		p := Pod{Namespace: "a", Name: name, Node: "n1"}
		if kind != "" {
			p.Workload = Workload{kind, "a", name}
		}
		if change != nil {
			change(&p)
		}
		f.Pods = append(f.Pods, p)
	}
	add("bare", "", nil)
	add("job", "Job", nil)
	add("held", "DaemonSet", nil)
	add("vip", "", func(p *Pod) { p.Static = true })
	add("pinned", "Deployment", func(p *Pod) { p.Pinned = true })
	add("ours", "Deployment", func(p *Pod) { p.Nadra = true })
	add("default", "Deployment", func(p *Pod) { p.OnlyDefault = true })
	add("stays", "Deployment", nil)
	f.Controllers = append(f.Controllers, Controller{Workload: Workload{"DaemonSet", "a", "held"}, Held: "its update strategy is OnDelete"},
		Controller{Workload: Workload{"Deployment", "a", "ours"}}, Controller{Workload: Workload{"Deployment", "a", "stays"}})
	stays := []Workload{{"Deployment", "a", "stays"}}
	want := namespaceShare{Name: "a", Restarts: []WorkloadPods{{Workload{"Deployment", "a", "web"}, 2}}, Later: []WorkloadPods{
		{Workload{"DaemonSet", "a", "held"}, 1}, {Workload{"Job", "a", "job"}, 1}, {Workload{"Pod", "a", "bare"}, 1},
	}}
	if diff := cmp.Diff(want, f.Rollouts("a", ToNadra, stays)); diff != "" {
		t.Error(diff)
	}
	back := namespaceShare{Name: "a", Restarts: []WorkloadPods{{Workload{"Deployment", "a", "ours"}, 1}}}
	if diff := cmp.Diff(back, f.Rollouts("a", ToMultus, stays)); diff != "" {
		t.Error(diff)
	}
	commands := want.Commands()
	if commands[0] != "kubectl label namespace a nadra.dev/owner=nadra --overwrite" || !slices.Contains(commands, "kubectl -n a rollout restart deployment/web") || len(commands) != 3 {
		t.Errorf("commands: %q", commands)
	}
}

func TestRolloutProblems(t *testing.T) {
	one := func() Facts { return besideFacts(map[string]int{"a": 2}) }
	budget := func(allowed, expected, healthy int32) Budget {
		return Budget{Namespace: "a", Name: "b", Allowed: allowed, Expected: expected, Healthy: healthy, Pods: []string{"web-n1-0", "web-n1-1"}}
	}
	for _, tt := range []struct {
		name  string
		facts Facts
		want  []string
	}{
		{"none", one(), nil},
		{"not installed", with(one(), func(f *Facts) { f.Installed = false }), []string{"NADRA-312 blocker"}},
		{"doctor's blocker", with(one(), func(f *Facts) { f.Doctor = []string{"beside-multus: they contradict each other"} }), []string{"NADRA-301 blocker"}},
		{"nothing to move", with(one(), func(f *Facts) { f.Owners["a"] = "multus" }), []string{"NADRA-313 blocker", "NADRA-316 info"}},
		{"a blind program", with(one(), func(f *Facts) {
			f.Blind = []translate.Finding{problem("NADRA-260", translate.Warning, ref("DaemonSet", "x", "y"), "it does not see them", "Leave them.")}
		}), []string{"NADRA-325 warning"}},
		{"a held workload", with(one(), func(f *Facts) { f.Controllers[0].Held = "it is paused" }), []string{"NADRA-323 warning"}},
		{"a Job", with(one(), func(f *Facts) { f.Controllers = nil }), []string{"NADRA-322 info"}},
		{"a budget that holds", with(one(), func(f *Facts) { f.Budgets = []Budget{budget(1, 1, 2)} }), nil},
		{"a budget that a rollout ignores", with(one(), func(f *Facts) { f.Budgets, f.Controllers[0].Down = []Budget{budget(1, 1, 2)}, 2 }), []string{"NADRA-324 warning"}},
		{"unhealthy pods", with(one(), func(f *Facts) { f.Budgets = []Budget{budget(0, 2, 1)} }), []string{"NADRA-315 warning"}},
		{"a workload that the webhook would refuse", with(one(), func(f *Facts) {
			f.Stays = []Stay{{Workload: Workload{"Deployment", "a", "vm"}, Codes: []string{"NADRA-029"}}}
		}), []string{"NADRA-313 blocker", "NADRA-304 warning"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			p := NewPlan(tt.facts, Options{})
			var got []string
			for _, one := range p.Findings {
				got = append(got, string(one.Code)+" "+string(one.Severity))
				if one.Message == "" || one.Fix == "" {
					t.Errorf("%+v", one)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// TestPlanOfTheOtherMode checks that a plan is refused if nadra's mode has changed since.
func TestPlanOfTheOtherMode(t *testing.T) {
	f := besideFacts(map[string]int{"a": 1})
	plan := NewPlan(f, Options{})
	if got := Check(plan, f); len(got) > 0 {
		t.Errorf("the same mode: %+v", got)
	}
	f.BesideMultus = false
	if got := Check(plan, f); len(got) != 1 || got[0].Code != codeOtherMode || got[0].Severity != translate.Blocker {
		t.Errorf("nodes move now: %+v", got)
	}
	f.BesideMultus = true
	if got := Check(&Plan{Waves: []Wave{{Name: "w", Nodes: []NodeShare{{Name: "n"}}}}}, f); len(got) != 1 || got[0].Code != codeOtherMode {
		t.Errorf("namespaces move now: %+v", got)
	}
	f.Stays = []Stay{{Workload: Workload{"Deployment", "a", "vm"}, Codes: []string{"NADRA-029"}}}
	if got := Check(plan, f); !slices.ContainsFunc(got, func(p translate.Finding) bool { return p.Code == codeStays && p.Severity == translate.Blocker }) {
		t.Errorf("a new workload holds the namespace back: %+v", got)
	}
}

func TestControllers(t *testing.T) {
	meta := func(name string) metav1.ObjectMeta { return metav1.ObjectMeta{Namespace: "a", Name: name} }
	rolling := func(unavailable intstr.IntOrString) appsv1.DeploymentStrategy {
		return appsv1.DeploymentStrategy{RollingUpdate: &appsv1.RollingUpdateDeployment{MaxUnavailable: &unavailable}}
	}
	o := Objects{
		Deployments: []appsv1.Deployment{
			{ObjectMeta: meta("default"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](8)}},
			{ObjectMeta: meta("none"), Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](8), Strategy: rolling(intstr.FromInt32(0))}},
			{ObjectMeta: meta("recreate"), Spec: appsv1.DeploymentSpec{Strategy: appsv1.DeploymentStrategy{Type: appsv1.RecreateDeploymentStrategyType}}, Status: appsv1.DeploymentStatus{Replicas: 3}},
			{ObjectMeta: meta("paused"), Spec: appsv1.DeploymentSpec{Paused: true}},
		},
		StatefulSets: []appsv1.StatefulSet{
			{ObjectMeta: meta("default")},
			{ObjectMeta: meta("ondelete"), Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.OnDeleteStatefulSetStrategyType}}},
			{ObjectMeta: meta("partition"), Spec: appsv1.StatefulSetSpec{UpdateStrategy: appsv1.StatefulSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](2)}}}},
		},
		DaemonSets: []appsv1.DaemonSet{
			{ObjectMeta: meta("half"), Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromString("50%"))}}}, Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3}},
			{ObjectMeta: meta("ondelete"), Spec: appsv1.DaemonSetSpec{UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.OnDeleteDaemonSetStrategyType}}},
		},
	}
	want := []Controller{
		{Workload{"Deployment", "a", "default"}, "", 2, 8},
		{Workload{"Deployment", "a", "none"}, "", 0, 8},
		{Workload{"Deployment", "a", "recreate"}, "", 3, 1},
		{Workload{"Deployment", "a", "paused"}, "it is paused", 0, 1},
		{Workload{"StatefulSet", "a", "default"}, "", 1, 1},
		{Workload{"StatefulSet", "a", "ondelete"}, "its update strategy is OnDelete", 1, 1},
		{Workload{"StatefulSet", "a", "partition"}, "its update strategy has a partition", 1, 1},
		{Workload{"DaemonSet", "a", "half"}, "", 2, 3},
		{Workload{"DaemonSet", "a", "ondelete"}, "its update strategy is OnDelete", 1, 0},
	}
	if diff := cmp.Diff(want, o.controllers()); diff != "" {
		t.Error(diff)
	}
}

func TestUnservedPools(t *testing.T) {
	var f Facts
	verdict := func(name string, codes ...translate.Code) translate.Verdict {
		return translate.Verdict{Object: translate.ObjectRef{Kind: "Deployment", Namespace: "a", Name: name}, Readiness: translate.Stays, Codes: codes}
	}
	f.AddVerdicts([]translate.Verdict{verdict("pool", translate.PoolsNotServedUser), verdict("both", translate.PoolsNotServedUser, translate.DefaultNetwork)})
	if len(f.Stays) != 2 || !f.Stays[0].Unserved || f.Stays[1].Unserved {
		t.Errorf("%+v", f.Stays)
	}
}

func TestRolloutLines(t *testing.T) {
	state := NewState()
	state.Rollouts["a"] = &Move{Direction: ToNadra, Step: Restart, Restarted: []Workload{{"Deployment", "a", "web"}}, Before: []byte{1, 2}}
	text, err := document.JSON(state, "  ")
	if err != nil {
		t.Fatal(err)
	}
	again, err := parseState(text)
	if err != nil {
		t.Fatal(err)
	}
	want := []Line{{"wave-1", "", "a", ToNadra, Restart, 4, 5}, {"wave-2", "", "b", ToNadra, "", 0, 5}}
	if diff := cmp.Diff(want, again.Lines(&Plan{BesideMultus: true, Waves: []Wave{{Name: "wave-1", Namespaces: []string{"a"}}, {Name: "wave-2", Namespaces: []string{"b"}}}})); diff != "" {
		t.Error(diff)
	}
}

// with returns facts with a change.
func with(f Facts, change func(*Facts)) Facts {
	change(&f)
	return f
}

// TestUnservedHoldsNodesPlanBack checks that a workload of a pool that nothing serves holds its namespace back where nodes
// move: beside Multus, the webhook leaves its pods to Multus.
func TestUnservedHoldsNodesPlanBack(t *testing.T) {
	f := Facts{
		Nodes: []Node{{Name: "n1", Ready: true, Linux: true}, {Name: "n2", Ready: true, Linux: true}}, DefaultOwner: "multus",
		Pods:  []Pod{{Namespace: "a", Name: "x", Node: "n1"}, {Namespace: "b", Name: "x", Node: "n1"}},
		Stays: []Stay{{Workload: Workload{"Deployment", "b", "x"}, Unserved: true}},
	}
	var moving []string
	for _, w := range NewPlan(f, Options{}).Waves {
		moving = append(moving, w.Namespaces...)
	}
	if !slices.Equal(moving, []string{"a"}) {
		t.Errorf("namespaces %v, want a alone", moving)
	}
}
