package doctor

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/golden"
)

// TestSavedIsRead checks that --from reads the output of --output-file.
func TestSavedIsRead(t *testing.T) {
	want := ready()
	want.Gaps = []Gap{{Part: PartConfig, Node: "node-1", Reason: "no", Remedy: "a right"}}
	text, err := want.YAML()
	if err != nil {
		t.Fatal(err)
	}
	got, err := ParseCapabilities(text)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(&want, got); diff != "" {
		t.Errorf("capabilities (-want +got):\n%s", diff)
	}
}

func TestParseCapabilities(t *testing.T) {
	const head = "apiVersion: nadra.dev/v1alpha1\nkind: ClusterCapabilities\n"
	for name, test := range map[string]struct{ text, want string }{
		"a newer field":   {head + "fresh: true\n", ""},
		"another kind":    {"apiVersion: nadra.dev/v1alpha1\nkind: ScanReport\n", `"ScanReport"`},
		"another version": {"apiVersion: nadra.dev/v2\nkind: ClusterCapabilities\n", `"nadra.dev/v2"`},
		"no YAML":         {"a: [", "yaml"},
		"no object":       {"- a\n", "doctor --output-file"},
		"a node twice":    {head + "nodes: [{name: a}, {name: a}]\n", "node a "},
		"a nameless node": {head + "nodes: [{}]\n", "nodes[0] "},
		"of another type": {head + "nodes: {}\n", "nodes"},
	} {
		_, err := ParseCapabilities([]byte(test.text))
		if test.want == "" && err != nil || test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want)) {
			t.Errorf("%s: error %v, want %q", name, err, test.want)
		}
	}
}

// TestParseOlderGap checks that the gap of pods is known by the name that it had first.
func TestParseOlderGap(t *testing.T) {
	const old = "apiVersion: nadra.dev/v1alpha1\nkind: ClusterCapabilities\ngaps: [{part: staticPods, reason: denied, remedy: a right}]\n"
	c, err := ParseCapabilities([]byte(old))
	if err != nil || c.gap(PartPods, "") == nil {
		t.Errorf("gaps %+v, %v", c.Gaps, err)
	}
}

func TestReportCounts(t *testing.T) {
	r := NewReport(ready())
	want := Summary{Nodes: 2, Probed: 2, OK: len(r.Checks) - 1, Findings: translate.Counts{Info: 1}}
	if diff := cmp.Diff(want, r.Summary); diff != "" {
		t.Errorf("summary (-want +got):\n%s", diff)
	}
	if got := NewReport(ready().Of([]string{"node-2"})).Summary.Nodes; got != 1 {
		t.Errorf("%d nodes of one", got)
	}
	c := fromOutside()
	c.Server.Version, c.Nodes[0].Runtime = "v1.20.0", "docker://1"
	if s := NewReport(c).Summary; s.Findings.Blocker != 2 || s.Unknown == 0 || s.Probed != 0 {
		t.Errorf("summary %+v", s)
	}
}

// TestRules checks that the codes are in order, and that the page has all of them.
func TestRules(t *testing.T) {
	if !slices.IsSortedFunc(rules, func(a, b rule) int { return strings.Compare(string(a.code), string(b.code)) }) {
		t.Error("the rules are not sorted by code")
	}
	const page, begin, end = "../../../docs/reference/checks.md", "<!-- rules -->\n", "<!-- /rules -->\n"
	var b strings.Builder
	b.WriteString("| Code | Check | At most | Why |\n| --- | --- | --- | --- |\n")
	for _, r := range rules {
		if r.name == "" || r.why == "" {
			t.Errorf("%s explains nothing", r.code)
		}
		fmt.Fprintf(&b, "| <a id=\"%s\"></a>%s | %s | %s | %s |\n", strings.ToLower(string(r.code)), r.code, r.name, r.worst, r.why)
	}
	golden.CheckPart(t, page, begin, end, b.String())
}
