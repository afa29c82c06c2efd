package monitoring

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// dashboard is the part of Grafana's model that the tests check.
type dashboard struct {
	UID, Title, Description string
	SchemaVersion           int
	Templating              struct{ List []variable }
	Panels                  []panel
}

type variable struct {
	Name, Type string
	Query      any
}

type panel struct {
	ID          int
	Type, Title string
	Datasource  source
	GridPos     struct{ X, Y, W, H int }
	Targets     []struct {
		RefID, Expr, LegendFormat string
		Datasource                source
	}
}

type source struct{ Type, UID string }

// dashboards returns the dashboards of manifests/monitoring, by file name.
func dashboards(t *testing.T) map[string]dashboard {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root, "manifests/monitoring/dashboards/*.json"))
	if err != nil || len(files) < 3 {
		t.Fatalf("%v, %v", files, err)
	}
	out := map[string]dashboard{}
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		var d dashboard
		if err := json.Unmarshal(text, &d); err != nil {
			t.Fatalf("%s: %v", f, err)
		}
		var canonical bytes.Buffer
		if err := json.Indent(&canonical, text, "", "  "); err != nil || canonical.String() != string(text) {
			t.Errorf("%s is not indented by two blanks", f)
		}
		out[filepath.Base(f)] = d
	}
	return out
}

// TestDashboards checks that every dashboard can be imported anywhere, and draws only
// existing metrics.
func TestDashboards(t *testing.T) {
	known := everything(t)
	uids := map[string]string{}
	for file, d := range dashboards(t) {
		if other := uids[d.UID]; d.UID == "" || other != "" || d.SchemaVersion == 0 || !strings.HasPrefix(d.Title, "nadra: ") || d.Description == "" {
			t.Errorf("%s: UID %q (also %q), title %q, schema %d", file, d.UID, other, d.Title, d.SchemaVersion)
		}
		uids[d.UID] = file
		if d.Templating.List[0].Type != "datasource" {
			t.Errorf("%s: the data source cannot be chosen", file)
		}
		defined := map[string]bool{}
		for _, v := range d.Templating.List {
			defined[v.Name] = true
			if query, ok := v.Query.(map[string]any); ok {
				for _, problem := range wrong(known, fmt.Sprint(query["query"])) {
					t.Errorf("%s: variable %s: %s", file, v.Name, problem)
				}
			}
		}
		ids, taken := map[int]bool{}, map[[2]int]string{}
		for _, p := range d.Panels {
			if p.Title == "" || ids[p.ID] || len(p.Targets) == 0 || p.Datasource.UID != "${datasource}" {
				t.Errorf("%s: panel %d %q", file, p.ID, p.Title)
			}
			ids[p.ID] = true
			overlaps(t, file, p, taken)
			refs := map[string]bool{}
			for _, target := range p.Targets {
				if refs[target.RefID] || target.Expr == "" || target.Datasource.UID != "${datasource}" {
					t.Errorf("%s: %s: query %q %q", file, p.Title, target.RefID, target.Expr)
				}
				refs[target.RefID] = true
				for _, problem := range wrong(known, target.Expr) {
					t.Errorf("%s: %s: %s", file, p.Title, problem)
				}
				if strings.Contains(target.Expr, "$node") && !defined["node"] {
					t.Errorf("%s: %s uses $node, which there is not", file, p.Title)
				}
			}
		}
	}
}

// overlaps fails the test for a panel that overlaps another, or exceeds the page.
func overlaps(t *testing.T, file string, p panel, taken map[[2]int]string) {
	t.Helper()
	g := p.GridPos
	if g.W < 1 || g.H < 1 || g.X < 0 || g.X+g.W > 24 {
		t.Errorf("%s: %s is at %+v", file, p.Title, g)
	}
	for x := g.X; x < g.X+g.W; x++ {
		for y := g.Y; y < g.Y+g.H; y++ {
			if other, is := taken[[2]int{x, y}]; is {
				t.Errorf("%s: %s is over %s", file, p.Title, other)
				return
			}
			taken[[2]int{x, y}] = p.Title
		}
	}
}

// TestDashboardsAreConfigMaps checks that Grafana's sidecar finds each dashboard in a
// ConfigMap.
func TestDashboardsAreConfigMaps(t *testing.T) {
	found := map[string]bool{}
	for _, o := range rendered(t, "dashboards") {
		meta, _ := o["metadata"].(map[string]any)
		labels, _ := meta["labels"].(map[string]any)
		if o["kind"] != "ConfigMap" || labels["grafana_dashboard"] != "1" {
			t.Errorf("%v %v has labels %v", o["kind"], meta["name"], labels)
		}
		data, _ := o["data"].(map[string]any)
		for file := range data {
			found[file] = true
		}
	}
	for file := range dashboards(t) {
		if !found[file] {
			t.Errorf("%s is in no ConfigMap", file)
		}
	}
}

// TestMetricsAreUsed checks that every metric of nadra is drawn or alerted on, or
// documented as one for investigation, because unused metrics cost every cluster.
func TestMetricsAreUsed(t *testing.T) {
	var used strings.Builder
	for _, r := range allRules(t) {
		used.WriteString(r.Expr + "\n")
	}
	for _, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				used.WriteString(target.Expr + "\n")
			}
		}
	}
	for name, m := range everything(t) {
		base := name
		if m.kind == "histogram" {
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				base = strings.TrimSuffix(base, suffix)
			}
		}
		if strings.HasPrefix(name, "nadra_") && base == name && !strings.Contains(used.String(), name) {
			t.Errorf("%s is in no alert and on no dashboard", name)
		}
	}
}
