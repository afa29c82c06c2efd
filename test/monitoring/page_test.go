package monitoring

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
)

var root = filepath.Join("..", "..")

func read(t *testing.T, parts ...string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(append([]string{root}, parts...)...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func number(f float64) string { return strconv.FormatFloat(f, 'g', -1, 64) }

// documented matches a row of the page's table, `name{labels}` | type | component | …
var documented = regexp.MustCompile("(?m)^\\| `(nadra_\\w+)(?:\\{([\\w,]*)\\})?` \\| (\\w+) \\| (\\w+) \\| (.+) \\|$")

// TestPageHasAllMetrics checks that the page has every metric of nadra with its type and
// labels, and no other.
func TestPageHasAllMetrics(t *testing.T) {
	n, nodeHappens := nodeSample(failing)
	c, controllerHappens := controllerSample(t)
	nodeHappens()
	controllerHappens()
	is := map[string]string{}
	for of, from := range map[string]prometheus.Gatherer{"driver": n.Gather(), "controller": c} {
		for name, m := range servedMetrics(t, from) {
			base := name
			for _, suffix := range []string{"_bucket", "_count", "_sum"} {
				if m.kind == "histogram" {
					base = strings.TrimSuffix(base, suffix)
				}
			}
			if !strings.HasPrefix(name, "nadra_") || base != name {
				continue
			}
			teller := of
			if is[name] != "" {
				teller = "both"
			}
			is[name] = strings.Join(slices.Sorted(maps.Keys(m.labels)), ",") + " " + m.kind + " " + teller
		}
	}
	rows := map[string]string{}
	for _, row := range documented.FindAllStringSubmatch(read(t, "docs", "reference", "metrics.md"), -1) {
		labels := strings.Split(row[2], ",")
		slices.Sort(labels)
		if rows[row[1]] != "" {
			t.Errorf("%s has two rows", row[1])
		}
		rows[row[1]] = strings.Join(labels, ",") + " " + row[3] + " " + row[4]
	}
	for name, want := range is {
		if rows[name] != want {
			t.Errorf("docs/reference/metrics.md describes %s as %q, want %q", name, rows[name], want)
		}
	}
	for name := range rows {
		if is[name] == "" {
			t.Errorf("docs/reference/metrics.md has %s, which nobody serves", name)
		}
	}
}

// TestPageHasValues checks that the page has the values of labels with a fixed set of
// values.
func TestPageHasValues(t *testing.T) {
	page := read(t, "docs", "reference", "metrics.md")
	rows := map[string]string{}
	for _, row := range documented.FindAllStringSubmatch(page, -1) {
		rows[row[1]] = row[5]
	}
	for name, m := range everything(t) {
		for _, label := range []string{"result", "event", "state", "phase", "kind", "queue", "check", "outcome", "waited", "decision", "owner", "webhook"} {
			for value := range m.labels[label] {
				if row, is := rows[name]; is && !strings.Contains(row, "`"+value+"`") {
					t.Errorf("the row of %s lacks %s %q", name, label, value)
				}
			}
		}
	}
}

// TestNamesAreLinted checks the names by Prometheus' rules.
func TestNamesAreLinted(t *testing.T) {
	n, nodeHappens := nodeSample(failing)
	c, controllerHappens := controllerSample(t)
	nodeHappens()
	controllerHappens()
	for _, from := range []prometheus.Gatherer{n.Gather(), c} {
		families, err := from.Gather()
		if err != nil {
			t.Fatal(err)
		}
		problems, err := promlint.NewWithMetricFamilies(families).Lint()
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range problems {
			if strings.HasPrefix(p.Metric, "nadra_") {
				t.Errorf("%s: %s", p.Metric, p.Text)
			}
		}
	}
}
