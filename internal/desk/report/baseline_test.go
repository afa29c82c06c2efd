package report

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/translate"
)

func written(t testing.TB, format string, r *Report) string {
	t.Helper()
	var b bytes.Buffer
	if err := Scan.Write(&b, format, r); err != nil {
		t.Fatal(err)
	}
	return b.String()
}

func TestBaseline(t *testing.T) {
	for _, format := range []string{"json", "yaml"} {
		earlier := Build(small(false))
		baseline, err := ReadBaseline([]byte(written(t, format, earlier)))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(earlier, baseline); diff != "" {
			t.Errorf("%s does not read back (-want, +got):\n%s", format, diff)
		}
		in := small(false)
		in.Baseline = baseline
		// Lines move and messages change; a second equal finding is new.
		for i := range in.Result.Findings {
			in.Result.Findings[i].Position.Line += 5
			in.Result.Findings[i].Message += ", in other words"
		}
		in.Result.Findings = append(in.Result.Findings, in.Result.Findings[0])
		r := Build(in)
		if len(r.Findings) != 1 || r.Summary.Known != len(earlier.Findings) || r.Summary.Findings.Total() != 1 {
			t.Errorf("%d findings are new and %d known, want 1 and %d", len(r.Findings), r.Summary.Known, len(earlier.Findings))
		}
		if diff := cmp.Diff(earlier.Workloads, r.Workloads); diff != "" {
			t.Errorf("the baseline changes workloads:\n%s", diff)
		}
	}
}

// TestBaselineKnowsNetworks replaces a missing network by another one, which is new.
func TestBaselineKnowsNetworks(t *testing.T) {
	report := func(network string) Input {
		s := sampler{}
		o := ref("Deployment", "shop", "web")
		s.workload(o, []string{network})
		s.find(o, []translate.Code{translate.NetworkNotInInput}, network+" is not in the input")
		return Input{Result: s.result}
	}
	in := report("shop/net9")
	in.Baseline = Build(report("shop/net1"))
	if r := Build(in); len(r.Findings) != 1 || r.Summary.Known != 0 {
		t.Errorf("%d findings are new and %d known, want 1 and 0", len(r.Findings), r.Summary.Known)
	}
}

func TestReadBaselineRefuses(t *testing.T) {
	narrowed := small(false)
	narrowed.Baseline = Build(small(false))
	for name, test := range map[string]struct{ text, want string }{
		"nothing":      {"", "kind"},
		"no YAML":      {"{", "YAML"},
		"a list":       {"[1]", "cannot unmarshal array"},
		"another kind": {"kind: List\napiVersion: v1", `"List"`},
		"from later":   {"kind: ScanReport\napiVersion: nadra.dev/v2", `"nadra.dev/v2"`},
		"other fields": {"kind: ScanReport\napiVersion: nadra.dev/v1alpha1\nfindings: 7", "cannot unmarshal"},
		"narrowed":     {written(t, "json", Build(narrowed)), "baseline"},
	} {
		_, err := ReadBaseline([]byte(test.text))
		if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), "kubectl nadra scan -o json") {
			t.Errorf("%s: the error is %v, want %q and a remedy", name, err, test.want)
		}
	}
	known := `{"kind":"ScanReport","apiVersion":"nadra.dev/v1alpha1","addedLater":true,"findings":[{"code":"NADRA-001","added":1}]}`
	r, err := ReadBaseline([]byte(known))
	if err != nil || len(r.Findings) != 1 || r.Findings[0].Code != translate.BadAnnotation {
		t.Errorf("fields of a later nadra are not ignored: %v", err)
	}
}
