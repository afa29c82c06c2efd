package report

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// shape formats workloads for comparison.
func shape(r *Report) string {
	var out []string
	for _, w := range r.Workloads {
		out = append(out, withPods(w.Object.Namespace+"/"+short(w.Object), w.Pods))
	}
	return strings.Join(out, " ")
}

func owned(s *sampler, kind, name, ownerKind, owner string, networks ...string) {
	v := s.workload(ref(kind, "a", name), networks, translate.OwnedWorkload)
	if owner != "" {
		// As owner references are: without a namespace.
		v.Owner = &translate.ObjectRef{Kind: ownerKind, Name: owner}
	}
}

func TestFold(t *testing.T) {
	tests := map[string]struct {
		make func(*sampler)
		want string
	}{
		"chain": {func(s *sampler) {
			owned(s, "Pod", "web-1-x", "ReplicaSet", "web-1", "a/n")
			owned(s, "Pod", "web-1-y", "ReplicaSet", "web-1", "a/n")
			owned(s, "ReplicaSet", "web-1", "Deployment", "web", "a/n")
			owned(s, "Deployment", "web", "", "", "a/n")
		}, "a/deploy/web (2)"},
		"cron job": {func(s *sampler) {
			owned(s, "CronJob", "c", "", "", "a/n")
			owned(s, "Job", "c-1", "CronJob", "c", "a/n")
			owned(s, "Pod", "c-1-x", "Job", "c-1", "a/n")
		}, "a/cj/c (1)"},
		"an older ReplicaSet has other networks": {func(s *sampler) {
			owned(s, "Deployment", "web", "", "", "a/n", "a/m")
			owned(s, "ReplicaSet", "web-1", "Deployment", "web", "a/n")
			owned(s, "Pod", "web-1-x", "ReplicaSet", "web-1", "a/n")
		}, "a/deploy/web a/rs/web-1 (1)"},
		"the order of networks counts": {func(s *sampler) {
			owned(s, "Deployment", "web", "", "", "a/n", "a/m")
			owned(s, "Pod", "x", "Deployment", "web", "a/m", "a/n")
		}, "a/deploy/web a/po/x"},
		"admission has made the pod another one": {func(s *sampler) {
			owned(s, "Deployment", "web", "", "", "a/n")
			owned(s, "Pod", "x", "Deployment", "web", "a/n")
			s.result.Workloads[1].Codes = append(s.result.Workloads[1].Codes, translate.HostNetwork)
		}, "a/deploy/web a/po/x"},
		"the owner is not there":     {func(s *sampler) { owned(s, "Pod", "x", "ReplicaSet", "gone", "a/n") }, "a/po/x"},
		"a pod is no pod of its own": {func(s *sampler) { owned(s, "Pod", "x", "", "", "a/n") }, "a/po/x"},
		"a circle": {func(s *sampler) {
			owned(s, "Job", "x", "Job", "y", "a/n")
			owned(s, "Job", "y", "Job", "x", "a/n")
			owned(s, "Pod", "z", "Job", "x", "a/n")
			owned(s, "Job", "self", "Job", "self", "a/n")
		}, "a/job/self a/job/x a/job/y a/po/z"},
	}
	for name, test := range tests {
		t.Run(name, func(t *testing.T) {
			s := &sampler{}
			test.make(s)
			r := Build(Input{Result: s.result})
			if got := shape(r); got != test.want {
				t.Errorf("listed are %s, want %s", got, test.want)
			}
			listed := map[translate.ObjectRef]bool{}
			pods := 0
			for _, w := range r.Workloads {
				listed[w.Object] = true
				pods += w.Pods
			}
			for _, f := range r.Findings {
				if !listed[f.Object] {
					t.Errorf("a finding is about %s, which is not listed", f.Object)
				}
			}
			if r.Summary.Pods != pods {
				t.Errorf("the sum of pods is %d, not %d", r.Summary.Pods, pods)
			}
		})
	}
}

// TestFoldedNameIsListedToo checks that, of two objects of one name, the findings of the one
// that is not folded are kept.
func TestFoldedNameIsListedToo(t *testing.T) {
	s := &sampler{}
	owned(s, "Deployment", "web", "", "", "a/n")
	owned(s, "Pod", "x", "Deployment", "web", "a/n")
	owned(s, "Pod", "x", "Deployment", "web", "a/other")
	r := Build(Input{Result: s.result})
	if got := shape(r); got != "a/deploy/web (1) a/po/x" {
		t.Error(got)
	}
	if len(findingsByObject(r).workloads[1]) == 0 {
		t.Error("the findings of the listed pod are lost")
	}
}

func TestBuildIsComplete(t *testing.T) {
	text, err := json.Marshal(Build(Input{}))
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "null") {
		t.Errorf("a list of an empty report is null: %s", text)
	}
	in := small(false)
	r := Build(in)
	if got, want := r.Summary.Workloads, (Verdicts{Ready: 3, ReadyNotes: 1, Stays: 2, NotJudged: 1, NothingToConvert: 1}); got != want {
		t.Errorf("the verdicts are %+v, want %+v; %s", got, want, shape(r))
	}
	if r.Summary.Pods != 3 || r.Summary.Objects != 28 || r.Summary.Files != 9 {
		t.Errorf("the summary is %+v", r.Summary)
	}
	for _, f := range r.Findings {
		rule, _ := translate.RuleOf(f.Code)
		if f.Title != rule.Title || f.What != rule.What || f.Why != rule.Why || f.Fix != rule.Fix || f.Anchor != f.Code.Anchor() {
			t.Errorf("%s is not explained: %+v", f.Code, f)
		}
	}
}

func TestUsers(t *testing.T) {
	users := map[string]string{}
	for _, n := range Build(small(false)).Networks {
		users[n.Object.Namespace+"/"+n.Object.Name] = strings.Join(userNames(n), " ")
	}
	want := map[string]string{
		"core5g/n3": "deploy/smf sts/upf ran/deploy/du storage/deploy/idle storage/po/debug", "core5g/n4": "deploy/smf sts/upf",
		"core5g/n6": "deploy/smf sts/upf", "ran/f1u": "deploy/du", "default/broken": "",
	}
	if diff := cmp.Diff(want, users); diff != "" {
		t.Errorf("got (+), want (-):\n%s", diff)
	}
}

// TestUsersOfNetworkDefinedTwice checks that each definition of a name has all users, once.
func TestUsersOfNetworkDefinedTwice(t *testing.T) {
	net := translate.NetworkVerdict{Object: translate.ObjectRef{Kind: "NetworkAttachmentDefinition", Namespace: "a", Name: "net"}}
	first, second := translate.ObjectRef{Kind: "Pod", Namespace: "a", Name: "first"}, translate.ObjectRef{Kind: "Pod", Namespace: "a", Name: "second"}
	workloads := []Workload{
		{Verdict: translate.Verdict{Object: first, Networks: []string{"a/net", "a/net"}}},
		{Verdict: translate.Verdict{Object: second, Networks: []string{"a/net"}}},
	}
	for i, n := range networksOf([]translate.NetworkVerdict{net, net}, workloads) {
		if diff := cmp.Diff([]translate.ObjectRef{first, second}, n.Users); diff != "" {
			t.Errorf("definition %d: got (+), want (-):\n%s", i, diff)
		}
	}
}

// TestOrder checks that the order of the files does not matter.
func TestOrder(t *testing.T) {
	in := large(60)
	want := Build(in)
	again := large(60)
	for i, j := 0, len(again.Result.Workloads)-1; i < j; i, j = i+1, j-1 {
		w := again.Result.Workloads
		w[i], w[j] = w[j], w[i]
	}
	got := Build(again)
	if diff := cmp.Diff(want.Workloads, got.Workloads); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff(want.Namespaces, got.Namespaces); diff != "" {
		t.Error(diff)
	}
}
