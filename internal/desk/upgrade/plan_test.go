package upgrade

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/desk/document"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/bounded"
	"github.com/nadra-dev/nadra/test/golden"
)

// sample plans the move of the cluster in testdata.
func sample(t *testing.T) *Plan {
	t.Helper()
	f := readObjects(t, "testdata/cluster.yaml").Facts("topology.kubernetes.io/zone", []MultusRef{{Namespace: "kube-system", DaemonSet: "kube-multus-ds"}})
	f.Source = "cluster lab"
	return NewPlan(f, Options{DomainLabel: "topology.kubernetes.io/zone"})
}

// Parsing an encoded plan yields the same plan.
func TestPlanForms(t *testing.T) {
	p := sample(t)
	golden.Check(t, "testdata/plan.md", string(p.Markdown()))
	text, err := document.JSON(p, "  ")
	if err != nil {
		t.Fatal(err)
	}
	golden.Check(t, "testdata/plan.json", string(text))
	again, err := ParsePlan(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("read again (-want +got):\n%s", diff)
	}
}

// TestPlanOfVersionBefore checks that a plan of the version before is carried out if it evicts no pod.
func TestPlanOfVersionBefore(t *testing.T) {
	const text = `{"apiVersion":"nadra.dev/v1alpha1","kind":"UpgradePlan","multus":[],"waves":[{"name":"wave-1","nodes":[{"name":"n1","adopts":[]}]}],` +
		`"summary":{"nodes":1,"waves":1,"namespaces":0,"evictions":0,"adopted":0,"blockers":0,"warnings":0}}`
	if p, err := ParsePlan([]byte(text)); err != nil || p.Summary.Nodes != 1 {
		t.Errorf("plan %+v, %v", p, err)
	}
}

func TestParsePlanErrors(t *testing.T) {
	const head = "apiVersion: nadra.dev/v1alpha1\nkind: UpgradePlan\n"
	for _, test := range []struct{ text, want string }{
		{"]", "YAML"},
		{"kind: Pod\napiVersion: v1\n", `apiVersion "v1" and kind "Pod" `},
		{head + "waves: []\n", "waves "},
		{head + "waves: [{name: a, nodes: [{name: n1}], namespace: [x]}]\n", `unknown field "namespace"`},
		{head + "waves: [{nodes: [{name: n1}]}]\n", `waves[0].name is ""`},
		{head + "waves: [{name: a, nodes: [{name: n1}]}, {name: a, nodes: [{name: m}]}]\n", `waves[1].name is "a"`},
		{head + "waves: [{name: a}]\n", "waves[0] "},
		{head + "waves: [{name: a, nodes: [{name: n1}, {name: n1}]}]\n", `waves[0].nodes[1].name is "n1"`},
		{head + "waves: [{name: a, nodes: [{name: N_1}]}]\n", `waves[0].nodes[0].name is "N_1"`},
		{head + "waves: [{name: a, namespaces: [x, x], nodes: []}]\n", `waves[0].namespaces[1] is "x"`},
		{head + "drain: true\nwaves: [{name: a, nodes: [{name: n1, evicts: []}]}]\n", "drain is true, and this version evicts no pod from a node that moves to nadra: write a plan"},
		{head + "waves: [{name: a, nodes: [{name: n1}]}]\nleft: [{name: n1}]\n", "left[0] is node n1"},
	} {
		if _, err := ParsePlan([]byte(test.text)); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%q: error %v, want one with %q", test.text, err, test.want)
		}
	}
}

// People edit plans: whatever they write is an error, or a plan that survives being
// encoded and parsed.
func FuzzParsePlan(f *testing.F) {
	text, err := os.ReadFile("testdata/plan.json")
	if err != nil {
		f.Fatal(err)
	}
	f.Add(text)
	f.Add([]byte("apiVersion: nadra.dev/v1alpha1\nkind: UpgradePlan\nwaves: [{name: a, nodes: [{name: n}]}]\n"))
	f.Fuzz(func(t *testing.T, text []byte) {
		bounded.Run(t, len(text), func() {
			p, err := ParsePlan(text)
			if err != nil {
				return
			}
			out, err := document.JSON(p, "  ")
			if err != nil {
				t.Fatal(err)
			}
			if _, err := ParsePlan(out); err != nil {
				t.Fatalf("an encoded plan cannot be parsed: %v\n%s", err, out)
			}
			p.Markdown()
		})
	})
}

// The pages show the sample plan and the table of rules.
func TestDocs(t *testing.T) {
	for page, part := range map[string]struct{ name, text string }{
		"upgrade.md":          {"plan", "````markdown\n" + string(sample(t).Markdown()) + "````\n"},
		"upgrade-blockers.md": {"rules", rulesTable()},
	} {
		path := filepath.Join("..", "..", "..", "docs", "migrate", page)
		golden.CheckPart(t, path, "<!-- "+part.name+" -->\n", "<!-- /"+part.name+" -->\n", part.text)
	}
}

// rulesTable renders the table of rules.
func rulesTable() string {
	var b strings.Builder
	b.WriteString("| Code | Problem | Why it matters |\n| --- | --- | --- |\n")
	for _, r := range rules {
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>%s | %s | %s |\n", strings.ToLower(string(r.Code)), r.Code, r.Title, r.Why)
	}
	return b.String()
}

// Every code has one rule, in order. Codes of rules that are gone are not used again.
func TestRules(t *testing.T) {
	gone := []translate.Code{"NADRA-306", "NADRA-308", "NADRA-309", "NADRA-310", "NADRA-311"}
	next := 301
	for _, r := range Rules() {
		for slices.Contains(gone, translate.Code(fmt.Sprintf("NADRA-%d", next))) {
			next++
		}
		if want := fmt.Sprintf("NADRA-%d", next); string(r.Code) != want {
			t.Errorf("a rule is of %s, want %s", r.Code, want)
		}
		next++
		if r.Title == "" || r.Why == "" {
			t.Errorf("%s explains nothing", r.Code)
		}
	}
}

// TestParsePlanGrowth checks that a plan of many nodes is not work with the square of their number.
func TestParsePlanGrowth(t *testing.T) {
	bounded.Growth(t, 1000, func(n int) func() {
		var out strings.Builder
		for i := range n {
			fmt.Fprintf(&out, "- {name: w%d, nodes: [{name: n%d}]}\n", i, i)
		}
		text := []byte("apiVersion: nadra.dev/v1alpha1\nkind: UpgradePlan\nwaves:\n" + out.String())
		return func() {
			p, err := ParsePlan(text)
			if err != nil {
				t.Fatal(err)
			}
			p.Markdown()
		}
	})
}
