package monitoring

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
)

const sloPage = "docs/operate/slo.md"

// TestRecordedSeries checks that rules and dashboards use only series that a rule records, and
// that every recorded series is used.
func TestRecordedSeries(t *testing.T) {
	used, recordedHere := map[string]bool{}, map[string]bool{}
	var exprs []string
	for _, r := range allRules(t) {
		recordedHere[r.Record] = true
		exprs = append(exprs, r.Expr)
		for _, problem := range wrong(everything(t), r.Expr) {
			t.Errorf("%s%s: %s", r.Alert, r.Record, problem)
		}
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				exprs = append(exprs, target.Expr)
			}
		}
	}
	for _, expr := range exprs {
		for _, name := range recorded.FindAllString(expr, -1) {
			used[name] = true
			if !recordedHere[name] {
				t.Errorf("no rule records %s, which %s uses", name, expr)
			}
		}
	}
	delete(recordedHere, "")
	for name := range recordedHere {
		if !used[name] {
			t.Errorf("nothing uses the recorded series %s", name)
		}
	}
}

// TestObjectivesAreOnThePage compares the page's table with the objectives and floors of the rules.
func TestObjectivesAreOnThePage(t *testing.T) {
	rows := map[string][2]string{}
	for _, m := range regexp.MustCompile("(?m)^\\| `([\\w-]+)` \\| .* \\| ([\\d.]+) % \\| (\\d+)[^|]*\\|$").FindAllStringSubmatch(read(t, sloPage), -1) {
		rows[m[1]] = [2]string{m[2], m[3]}
	}
	seen := 0
	number := regexp.MustCompile(`^vector\(([\d.]+)(?: / 3600)?\)$`)
	for _, r := range allRules(t) {
		at := slices.Index([]string{"nadra:slo_objective", "nadra:slo_floor"}, r.Record)
		if at < 0 {
			continue
		}
		seen++
		m := number.FindStringSubmatch(r.Expr)
		if m == nil {
			t.Errorf("%s of %s is %s", r.Record, r.Labels["slo"], r.Expr)
			continue
		}
		want := m[1]
		if at == 0 {
			want = percent(want)
		}
		if got := rows[r.Labels["slo"]][at]; got != want {
			t.Errorf("%s has %s of %s as %q, want %q", sloPage, r.Record, r.Labels["slo"], got, want)
		}
	}
	if seen != 2*len(rows) {
		t.Errorf("%s has %d rows for %d objectives and floors", sloPage, len(rows), seen)
	}
}

// percent moves the decimal point of a share such as 0.995 by two digits, without rounding.
func percent(share string) string {
	digits := strings.TrimPrefix(share, "0.") + "00"
	return strings.TrimSuffix(strings.TrimRight(digits[:2]+"."+digits[2:], "0"), ".")
}

// TestObjectiveIsPatched applies the page's kustomization, which changes one objective of the
// Prometheus operator's object, and checks that nothing else changes.
func TestObjectiveIsPatched(t *testing.T) {
	m := regexp.MustCompile("(?s)```yaml\n(.*?)```").FindStringSubmatch(read(t, sloPage))
	if m == nil {
		t.Fatalf("%s has no kustomization", sloPage)
	}
	manifests, err := filepath.Abs(filepath.Join(root, "manifests"))
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	relative, err := filepath.Rel(dir, manifests)
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(m[1], "- manifests/", "- "+relative+"/", 1)
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), dir)
	if err != nil {
		t.Fatal(err)
	}
	var got struct{ Spec rules }
	for _, r := range built.Resources() {
		if r.GetKind() == "PrometheusRule" {
			decode(t, r.MustYaml(), &struct {
				APIVersion, Kind string
				Metadata         map[string]any
				Spec             *rules
			}{Spec: &got.Spec})
		}
	}
	var changed []string
	for g, group := range got.Spec.Groups {
		for i, r := range group.Rules {
			var is rules
			decode(t, read(t, rulesFile), &is)
			if was := is.Groups[g].Rules[i]; was.Expr != r.Expr {
				changed = append(changed, r.Record+" "+r.Labels["slo"]+": "+was.Expr+" > "+r.Expr)
			}
		}
	}
	if want := []string{"nadra:slo_objective attach: vector(0.995) > vector(0.999)"}; !slices.Equal(changed, want) {
		t.Errorf("the patch changes %q, want %q", changed, want)
	}
}
