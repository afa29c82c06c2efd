package upgrade

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/translate"
)

func TestNeeds(t *testing.T) {
	moved := Facts{
		Nodes:        []Node{{Name: "a", Linux: true, Ready: true, Nadra: true}, {Name: "win"}},
		Pods:         []Pod{{Namespace: "x", Name: "p", Node: "a", Nadra: true}},
		Owners:       map[string]string{"x": "nadra"},
		DefaultOwner: "nadra",
	}
	for name, test := range map[string]struct {
		change     func(*Facts)
		configured map[string][]string
		want       []string
	}{
		"nothing":        {func(*Facts) {}, map[string][]string{"a": nil}, nil},
		"a node":         {func(f *Facts) { f.Nodes[0].Nadra = false }, nil, []string{"NADRA-317 Node a"}},
		"a pod":          {func(f *Facts) { f.Pods[0].Nadra, f.Pods[0].Node = false, "win" }, nil, []string{"NADRA-318 Pod x/p"}},
		"an adopted one": {func(f *Facts) { f.Pods[0].Nadra = false }, nil, nil},
		"a runtime":      {func(*Facts) {}, map[string][]string{"a": {"00-multus.conf"}}, []string{"NADRA-319 Node a"}},
		"the default":    {func(f *Facts) { f.DefaultOwner = "multus" }, nil, []string{"NADRA-320"}},
		"a namespace":    {func(f *Facts) { f.Owners["y"] = "multus" }, nil, []string{"NADRA-316 Namespace y"}},
		"a workload":     {func(f *Facts) { f.Stays = []Stay{{Workload: Workload{"Job", "x", "j"}}} }, nil, []string{"NADRA-304 Job x/j"}},
		"two reasons":    {func(f *Facts) { f.Pods[0].Nadra, f.Pods[0].Node, f.DefaultOwner = false, "win", "multus" }, nil, []string{"NADRA-318 Pod x/p", "NADRA-320"}},
	} {
		f := moved
		f.Nodes, f.Pods = append([]Node{}, moved.Nodes...), append([]Pod{}, moved.Pods...)
		f.Owners = map[string]string{"x": "nadra"}
		test.change(&f)
		var got []string
		for _, p := range Needs(f, test.configured) {
			if p.Severity != translate.Blocker || p.Message == "" || p.Fix == "" {
				t.Errorf("%s: %+v", name, p)
			}
			got = append(got, strings.TrimSpace(string(p.Code)+" "+p.Object.String()))
		}
		if diff := cmp.Diff(test.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
