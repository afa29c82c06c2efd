package report

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/santhosh-tekuri/jsonschema/v6"
	"golang.org/x/net/html"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/bounded"
)

// nasty are values that have broken one format or another.
var nasty = []string{
	"", "a\nb\r\nc\rd\te", "\x00", "\x1b[31mred\x1b[0m", "</script><script>alert(1)</script>", "<img src=x onerror=alert(1)>", "a|b\\|c", "`code` ``",
	"=1+1", "+1", "-1", "@SUM(A1)", "＝1", "\"quoted\", 'single'", "\xff\xfe broken", "\u202egnp.exe", "🦀👩‍👩‍👧", "]]>", "&amp;&", "--><!--",
	strings.Repeat("long ", 500), "{{.}}", "[link](javascript:alert(1))", "javascript:alert(1)", "\u2028", "\ufffe\uffff", "$(id)", "%s%n", "https://evil.example/x", "# h", "---\n", "Y", "no", "190:20:30", "0x1F", "1e3", "~", "null", "2026-11-21",
}

// hostile returns a report with a value in every place that others write.
func hostile(v string) *Report {
	o := translate.ObjectRef{APIVersion: v, Kind: v, Namespace: v, Name: v}
	at := translate.Position{File: v, Line: 1, Column: 1}
	f := translate.Finding{Code: translate.BadAnnotation, Severity: translate.Blocker, Object: o, Field: v, Position: at, Message: v}
	other, network := f, f
	other.Object.Name, other.Severity = v+"2", translate.Warning
	network.Object.Kind = "NetworkAttachmentDefinition"
	strange := f
	strange.Code, strange.Severity = translate.Code(v), translate.Severity(v)
	w := translate.Verdict{
		Object: o, Position: at, Readiness: translate.Stays, Networks: []string{v, v + "/" + v}, Codes: []translate.Code{f.Code, strange.Code},
		Features: []string{v}, Owner: &translate.ObjectRef{Kind: v, Name: "gone"},
	}
	n := translate.NetworkVerdict{
		Object: network.Object, Position: at, Readiness: translate.Stays, Class: v, Plugins: []string{v}, IPAM: v, Pool: v,
		Codes: []translate.Code{f.Code},
	}
	return Build(Input{Source: v, Files: 1, Result: translate.Result{
		Findings: []translate.Finding{f, other, network, strange}, Workloads: []translate.Verdict{w}, Networks: []translate.NetworkVerdict{n},
		Kinds: map[string]int{v: 1},
	}})
}

// FuzzHostileValues writes a report in every format with a value in every place that others
// write. Without -fuzz, it does so with all values of nasty.
func FuzzHostileValues(f *testing.F) {
	for _, v := range nasty {
		f.Add(v)
	}
	s := schema(f)
	f.Fuzz(func(t *testing.T, v string) { bounded.Run(t, len(v), func() { checkHostile(t, s, v) }) })
}

func checkHostile(t *testing.T, s *jsonschema.Schema, v string) {
	t.Helper()
	r := hostile(v)
	checkLines(t, "table", v, written(t, "table", r))
	checkLines(t, "wide", v, written(t, "wide", r))
	checkData(t, r)
	checkSARIF(t, s, written(t, "sarif", r))
	checkPage(t, written(t, "html", r))
}

// checkLines checks that the text has no control characters for a terminal, and that only the name of the file has no limit.
func checkLines(t *testing.T, format, file, text string) {
	t.Helper()
	for line := range strings.SplitSeq(text, "\n") {
		if strings.ContainsFunc(line, unprintable) {
			t.Errorf("%s has control characters: %.200q", format, line)
		}
		if format == "table" && !strings.HasPrefix(line, "Looked at ") && len(line) > 6*(longest+columnGap)+len(Visible(file)) {
			t.Errorf("a line of the table has %d bytes", len(line))
		}
	}
}

// checkData checks that JSON and YAML are parsed to the same report.
func checkData(t *testing.T, r *Report) {
	t.Helper()
	text := written(t, "json", r)
	var want, again, got Report
	if err := json.Unmarshal([]byte(text), &want); err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(written(t, "json", &want)), &again); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, again); diff != "" {
		t.Errorf("JSON does not read back:\n%s", diff)
	}
	if err := yaml.Unmarshal([]byte(written(t, "yaml", r)), &got); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("YAML does not read back:\n%s", diff)
	}
}

// checkPage checks that values are text, that the page has only its own style and script, and
// that it loads nothing.
func checkPage(t *testing.T, text string) {
	t.Helper()
	doc, err := html.Parse(strings.NewReader(text))
	if err != nil {
		t.Fatal(err)
	}
	ours := map[string]string{"script": htmlScript, "style": htmlStyle}
	seen := map[string]bool{}
	for n := range doc.Descendants() {
		if n.Type != html.ElementNode {
			continue
		}
		if slices.Contains([]string{"img", "iframe", "object", "embed", "base", "video", "audio"}, n.Data) {
			t.Errorf("there is a %s", n.Data)
		}
		if own, found := ours[n.Data]; found {
			if seen[n.Data] || n.FirstChild == nil || n.FirstChild.Data != own {
				t.Errorf("a %s is not ours", n.Data)
			}
			seen[n.Data] = true
		}
		for _, a := range n.Attr {
			checkAttribute(t, n, a)
		}
	}
}

func checkAttribute(t *testing.T, n *html.Node, a html.Attribute) {
	t.Helper()
	switch {
	case strings.HasPrefix(a.Key, "on"), a.Key == "style", a.Key == "src", a.Key == "srcset", a.Key == "action":
		t.Errorf("%s has %s=%.100q", n.Data, a.Key, a.Val)
	case a.Key == "href" && !strings.HasPrefix(a.Val, "#") && !strings.HasPrefix(a.Val, Docs) && a.Val != "data:,":
		t.Errorf("%s leads to %.100q", n.Data, a.Val)
	}
}
