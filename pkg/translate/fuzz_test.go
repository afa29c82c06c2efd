package translate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/bounded"
)

// FuzzConvert converts any text: it must not panic, the output must parse, and converting the output
// must change nothing.
func FuzzConvert(f *testing.F) {
	archives, err := filepath.Glob("../../testdata/translate/*.txtar")
	if err != nil {
		f.Fatal(err)
	}
	for _, path := range archives {
		text, err := os.ReadFile(path)
		if err != nil {
			f.Fatal(err)
		}
		_, sections := archive(text)
		for _, s := range sections {
			f.Add(s.data, len(s.data)%2 == 0, len(s.data)%3 == 0)
		}
	}
	for _, odd := range odds {
		f.Add([]byte(odd), true, false)
	}
	for _, many := range large() {
		f.Add([]byte(many), true, false)
	}
	f.Fuzz(func(t *testing.T, text []byte, pools, drop bool) {
		in := Input{Files: []File{{"f.yaml", text}}, Options: Options{Pools: pools, DropAnnotation: drop, BesideMultus: !drop && !pools}}
		var got Result
		bounded.Run(t, len(text), func() { got = Convert(in) })
		checkParses(t, got)
		checkIdempotent(t, in, got)
		for _, f := range got.Findings {
			if _, found := RuleOf(f.Code); !found {
				t.Errorf("no rule explains %v", f)
			}
		}
	})
}

// large returns manifests whose annotation has many names, elements or keys.
func large() []string {
	var out []string
	for _, n := range []int{10, 64, 65, 1000, 8000} {
		for _, annotation := range []string{
			strings.Repeat("a,", n-1) + "a",
			"[" + strings.Repeat(`{"name":"a"},`, n-1) + `{"name":"a"}]`,
			`[{"name":"a"` + strings.Repeat(`,"x":1`, n) + "}]",
		} {
			out = append(out, strings.Replace(podHead, "networks: lan", "networks: '"+annotation+"'", 1)+"spec: {containers: [{name: c}]}\n")
		}
	}
	return out
}

// TestConversionGrowsLinearly checks that eight times as many networks, each with unknown and repeated
// keys, make some eight times as many allocations.
func TestConversionGrowsLinearly(t *testing.T) {
	allocations := func(networks int) float64 {
		element := `{"name":"a","x":1,"y":2,"interface":"","interface":""}`
		annotation := "[" + strings.Repeat(element+",", networks-1) + element + "]"
		text := strings.Replace(podHead, "networks: lan", "networks: '"+annotation+"'", 1) + "spec: {containers: [{name: c}]}\n"
		return testing.AllocsPerRun(3, func() { Convert(Input{Files: []File{{"f.yaml", []byte(text)}}}) })
	}
	few, many := allocations(v1alpha1.MaxNetworks/8), allocations(v1alpha1.MaxNetworks)
	if many > 10*few {
		t.Errorf("%d networks make %v allocations, %d make %v", v1alpha1.MaxNetworks/8, few, v1alpha1.MaxNetworks, many)
	}
}

const podHead = "apiVersion: v1\nkind: Pod\nmetadata: {name: p, annotations: {k8s.v1.cni.cncf.io/networks: lan}}\n"

// odds are manifests in unusual forms, which a conversion must edit correctly or leave as they are.
var odds = []string{
	podHead + "spec:\n  containers:\n  - name: c",
	podHead + "spec:\r\n  containers:\r\n  - name: c\r\n",
	"\xef\xbb\xbf" + podHead + "spec: {containers: [{name: c}]}",
	podHead + "spec:\n  containers:\n  - name: c\n    args: [a,\n  b\n]\n",
	podHead + "spec:\n  containers:\n  - name: c\n    image: a\n      b # c\n",
	podHead + "spec:\n  containers:\n  - name: c\n    args:\n    - |+\n      x\n\n\n",
	podHead + "spec:\n  containers:\n  - name: c\n    args:\n    - >2\n        x\n      # y\n# z\n",
	podHead + "spec:\n  containers:\n  - name: c\n    resources: # none yet\n  # more\n...\n# end\n",
	podHead + "spec:\n  containers:\n  - name: c\n    resources:\n      claims: []\n",
	podHead + "spec:\n  containers:\n  - name: c\n    resources: {claims: [{name: x},],}\n",
	podHead + "spec:\n  containers:\n  -\n    name: c\n",
	podHead + "spec:\n  containers:\n  - name: \"c\\\"\"\n    image: 'it''s'\n",
	podHead + "spec: !!map\n  containers: !!seq\n  - name: c\n    \"quoted\": !!str x\n",
	"--- # first\n" + podHead + "spec: {containers: [{name: c}]}\n--- \n--- |\n  text\n",
	"%YAML 1.1\n---\n" + podHead + "spec: {containers: [{name: c}]}\n",
	podHead + "spec:\n  containers:\n  - name: c\n    args:\n    - |\n      x",
	podHead + "spec:\n  containers:\n  - name: c\n    args:\n    - >2+ # -\n        x\n\n      y",
	podHead + "spec:\n  containers:\n  - name: c\n    args:\n    - |- # +\r\n      x",
	"a: &a [*a]\n",
	podHead + "spec: &s\n  containers:\n  - name: c\n  x: *s\n",
}

func TestOddities(t *testing.T) {
	for _, odd := range odds {
		in := Input{Files: []File{{"f.yaml", []byte(odd)}}}
		got := Convert(in)
		checkParses(t, got)
		checkIdempotent(t, in, got)
		for _, f := range got.Findings {
			if f.Code == NotEditable || f.Code == NotYAML {
				t.Errorf("%v\n%s", f, odd)
			}
		}
	}
}

// TestLineEnds checks that line ends of Windows are kept.
func TestLineEnds(t *testing.T) {
	text := strings.ReplaceAll(podHead+"spec:\n  containers:\n  - name: c\n    resources:\n      limits:\n        cpu: 1\n", "\n", "\r\n")
	got := Convert(Input{Files: []File{{"f.yaml", []byte(text)}}})
	if out := string(got.Files[0].Data); out == text || strings.Count(out, "\n") != strings.Count(out, "\r\n") {
		t.Errorf("got %q", out)
	}
}

// TestLeftAlone checks that a document which cannot be edited stays as it is, with a finding.
func TestLeftAlone(t *testing.T) {
	for _, text := range []string{
		podHead + "spec:\n  containers:\n  - name: c\n    name: c\n",
		podHead + "spec:\n  containers:\n  - ? name\n    : c\n",
	} {
		got := Convert(Input{Files: []File{{"f.yaml", []byte(text)}}})
		if string(got.Files[0].Data) != text || got.Workloads[0].Readiness != Stays || len(got.Created) > 0 {
			t.Errorf("got %+v", got)
		}
		if !slices.Contains(got.Workloads[0].Codes, NotEditable) {
			t.Errorf("got %v", got.Workloads[0].Codes)
		}
	}
}

// TestConvertGrowth checks that no repetition in a manifest makes Convert work with the square of its number.
func TestConvertGrowth(t *testing.T) {
	of := func(text func(n int) string) func(int) func() {
		return func(n int) func() {
			in := Input{Files: []File{{"f.yaml", []byte(text(n))}}}
			return func() { Convert(in) }
		}
	}
	pod := func(annotation string) string {
		return strings.Replace(podHead, "networks: lan", "networks: '"+annotation+"'", 1) + "spec: {containers: [{name: c}]}\n"
	}
	for _, shape := range []func(n int) string{
		func(n int) string { return pod(strings.Repeat("a,", n) + "a") },
		func(n int) string { return pod("[" + strings.Repeat(`{"name":"a"},`, n) + `{"name":"a"}]`) },
		func(n int) string { return pod(`[{"name":"a"` + strings.Repeat(`,"x":1`, n) + "}]") },
		func(n int) string { return strings.Repeat(pod("a")+"---\n", n/16) },
		func(n int) string { return podHead + "spec:\n  containers:\n" + strings.Repeat("  - {name: c}\n", n/8) },
		func(n int) string { return "a: &a [1]\nb: [" + strings.Repeat("*a, ", n) + "1]\n" },
		func(n int) string { return strings.Repeat("# comment\n", n) + pod("a") },
	} {
		bounded.Growth(t, 1600, of(shape))
	}
}
