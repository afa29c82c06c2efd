package monitoring

import (
	"regexp"
	"strings"
	"testing"
)

// The parts of an expression that are checked, without parsing it, which promtool does.
var (
	recorded    = regexp.MustCompile(`\bnadra:[\w:]+`)
	anyMetric   = regexp.MustCompile(`\b(?:nadra|process|go)_\w+|\bup\b`)
	selection   = regexp.MustCompile(`([a-zA-Z_:][\w:]*)\{([^}]*)\}`)
	matcher     = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping    = regexp.MustCompile(`\b(?:by|without|on)\s*\(([^)]*)\)`)
	ofTheScrape = map[string]bool{"job": true, "node": true, "pod": true, "instance": true}
)

// wrong returns the metrics, labels and values of labels in an expression that do not
// exist.
func wrong(known map[string]metric, expr string) (problems []string) {
	for _, name := range anyMetric.FindAllString(outsideOfStrings(expr), -1) {
		if _, there := known[name]; !there {
			problems = append(problems, "nobody serves "+name)
		}
	}
	for _, s := range selection.FindAllStringSubmatch(expr, -1) {
		for _, m := range matcher.FindAllStringSubmatch(s[2], -1) {
			label, value := m[1], m[3]
			values, has := known[s[1]].labels[label]
			switch {
			case has && !strings.Contains(value, "$"):
				for _, v := range strings.Split(value, "|") {
					if !values[v] {
						problems = append(problems, s[1]+" has no "+label+" "+v)
					}
				}
			case !has && !ofTheScrape[label]:
				problems = append(problems, s[1]+" has no label "+label)
			}
		}
	}
	for _, g := range grouping.FindAllStringSubmatch(expr, -1) {
		for _, label := range strings.FieldsFunc(g[1], func(r rune) bool { return r == ',' || r == ' ' }) {
			if !ofTheScrape[label] && !labelOf(known, expr, label) {
				problems = append(problems, "none of its metrics has label "+label)
			}
		}
	}
	return problems
}

// outsideOfStrings removes quoted texts, such as the name of a job.
func outsideOfStrings(expr string) string {
	return regexp.MustCompile(`"[^"]*"`).ReplaceAllString(expr, `""`)
}

// labelOf reports whether a metric of the expression has the label.
func labelOf(known map[string]metric, expr, label string) bool {
	for _, name := range anyMetric.FindAllString(outsideOfStrings(expr), -1) {
		if _, has := known[name].labels[label]; has {
			return true
		}
	}
	return false
}

// TestWrongExpressionsAreFound proves that wrong finds errors.
func TestWrongExpressionsAreFound(t *testing.T) {
	known := everything(t)
	for expr, want := range map[string]string{
		`sum by (node, state) (nadra_blocked_pods{node=~"$node",state=~"retrying|failed"}) > 0`:           "",
		`histogram_quantile(0.99, sum by (le, event) (rate(nadra_nri_hook_duration_seconds_bucket[5m])))`: "",
		`up{job="nadra-node"} == 0`:                                   "",
		`nadra_blocked_podss > 0`:                                     "nobody serves nadra_blocked_podss",
		`nadra_blocked_pods{state="stuck"}`:                           "has no state stuck",
		`nadra_blocked_pods{states="failed"}`:                         "has no label states",
		`sum by (nad) (nadra_blocked_pods)`:                           "has label nad",
		`nadra_nri_deadline_margin_seconds_bucket{le="0.2"}`:          "has no le 0.2",
		`rate(nadra_attach_duration_seconds[5m]) and process_cpu_sec`: "nobody serves process_cpu_sec",
	} {
		got := strings.Join(wrong(known, expr), "; ")
		if (want == "") != (got == "") || !strings.Contains(got, want) {
			t.Errorf("%s: %q, want %q", expr, got, want)
		}
	}
}
