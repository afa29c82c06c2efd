package monitoring

import (
	"cmp"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/test/golden"
)

const rulesFile = "manifests/monitoring/prometheus/rules.yaml"

type rules struct {
	Groups []group `json:"groups"`
}

type group struct {
	Name  string `json:"name"`
	Rules []rule `json:"rules"`
}

// rule is an alert, or the recording of a series.
type rule struct {
	Alert       string            `json:"alert,omitempty"`
	Record      string            `json:"record,omitempty"`
	Expr        string            `json:"expr"`
	For         string            `json:"for,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func decode(t *testing.T, text string, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict([]byte(text), into); err != nil {
		t.Fatal(err)
	}
}

func allRules(t *testing.T) []rule {
	t.Helper()
	var r rules
	decode(t, read(t, rulesFile), &r)
	var out []rule
	for _, g := range r.Groups {
		out = append(out, g.Rules...)
	}
	if len(out) == 0 {
		t.Fatal("there are no rules")
	}
	return out
}

// alerts returns the rules that are alerts.
func alerts(t *testing.T) []rule {
	t.Helper()
	return slices.DeleteFunc(allRules(t), func(r rule) bool { return r.Alert == "" })
}

// runbooks returns the pages with the alerts' remedies, by their addresses.
func runbooks(t *testing.T) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, page := range []string{"docs/troubleshooting/alerts.md", "docs/operate/slo.md"} {
		out["https://github.com/nadra-dev/nadra/blob/main/"+page] = read(t, page)
	}
	return out
}

// TestAlertsAreComplete checks that each alert says what is wrong and where, and that the
// page says what to do about it.
func TestAlertsAreComplete(t *testing.T) {
	known := everything(t)
	pages := runbooks(t)
	seen := map[string]bool{}
	for _, r := range alerts(t) {
		if seen[r.Alert] {
			t.Errorf("%s is there twice", r.Alert)
		}
		seen[r.Alert] = true
		for _, problem := range wrong(known, r.Expr) {
			t.Errorf("%s: %s", r.Alert, problem)
		}
		if s := r.Labels["severity"]; s != "critical" && s != "warning" {
			t.Errorf("%s has severity %q", r.Alert, s)
		}
		for _, a := range []string{"summary", "description"} {
			if text := r.Annotations[a]; !strings.HasSuffix(text, ".") {
				t.Errorf("%s: its %s is %q", r.Alert, a, text)
			}
		}
		page, section, _ := strings.Cut(r.Annotations["runbook_url"], "#")
		if section != strings.ToLower(r.Alert) || !strings.Contains(pages[page], "# "+r.Alert+"\n") {
			t.Errorf("%s refers to %s, where it has no section", r.Alert, r.Annotations["runbook_url"])
		}
	}
	for page, text := range pages {
		for _, m := range regexp.MustCompile(`(?m)^##+ (Nadra\w+)$`).FindAllStringSubmatch(text, -1) {
			if !seen[m[1]] {
				t.Errorf("%s has a section for %s, which there is not", page, m[1])
			}
		}
	}
}

// tried is a file of cases for promtool.
type tried struct {
	Tests []struct {
		Name            string
		Input           []struct{ Series string } `json:"input_series"`
		PromQLExprTests []struct {
			Expr    string
			Samples []any `json:"exp_samples"`
		} `json:"promql_expr_test"`
	}
}

// triedFiles has promtool's cases.
var triedFiles = []string{"alerts.yaml", "slo.yaml"}

// TestAlertsAreTried checks that promtool tries every alert in a case in which it fires,
// and in one in which it does not, with series that nadra serves.
func TestAlertsAreTried(t *testing.T) {
	known := everything(t)
	fires, silent := map[string]bool{}, map[string]bool{}
	for _, file := range triedFiles {
		var cases tried
		if err := yaml.Unmarshal([]byte(read(t, "test/monitoring/testdata", file)), &cases); err != nil {
			t.Fatal(err)
		}
		for _, tt := range cases.Tests {
			alert, _, _ := strings.Cut(tt.Name, ":")
			for _, s := range tt.Input {
				for _, problem := range wrong(known, s.Series) {
					if !strings.Contains(problem, " has no nad ") && !strings.Contains(problem, " has no missing_on ") { // users name networks and nodes
						t.Errorf("group %s: %s", tt.Name, problem)
					}
				}
			}
			for _, e := range tt.PromQLExprTests {
				if !strings.Contains(e.Expr, `alertname="`+alert+`"`) {
					t.Errorf("group %s tries %s", tt.Name, e.Expr)
				}
				if len(e.Samples) > 0 {
					fires[alert] = true
				} else {
					silent[alert] = true
				}
			}
		}
	}
	var names []string
	for _, r := range alerts(t) {
		names = append(names, r.Alert)
		if !fires[r.Alert] || !silent[r.Alert] {
			t.Errorf("%s is not tried: fires %v, does not %v", r.Alert, fires[r.Alert], silent[r.Alert])
		}
	}
	for alert := range fires {
		if !slices.Contains(names, alert) {
			t.Errorf("%s is tried, and there is no such alert", alert)
		}
	}
}

const ruleHead = `# The alerts of prometheus/rules.yaml for the Prometheus operator. Written by
# go test ./test/monitoring -update; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: nadra
  labels:
    app.kubernetes.io/name: nadra
spec:
`

// TestPrometheusRuleIsTheSame checks that the Prometheus operator's object has the same
// groups.
func TestPrometheusRuleIsTheSame(t *testing.T) {
	const file = "manifests/monitoring/operator/prometheusrule.yaml"
	_, groups, found := strings.Cut(read(t, rulesFile), "\ngroups:\n")
	if !found {
		t.Fatal("the rules have no groups")
	}
	want := ruleHead + "  groups:\n" + regexp.MustCompile(`(?m)^(.)`).ReplaceAllString(groups, "  $1")
	golden.Check(t, filepath.Join(root, file), want)
	var object struct {
		APIVersion, Kind string
		Metadata         map[string]any
		Spec             rules
	}
	decode(t, read(t, file), &object)
	var source rules
	decode(t, read(t, rulesFile), &source)
	if !reflect.DeepEqual(object.Spec, source) {
		t.Error("the groups are not the same")
	}
}

// TestScrapesAreTheSame checks that both ways to scrape use the pods' ports, and add the
// labels that the rules use.
func TestScrapesAreTheSame(t *testing.T) {
	type relabeling struct {
		SourceLabels []string `json:"source_labels"`
		Regex        string
		Action       string
		Target       string `json:"target_label"`
		Replacement  string
	}
	var config struct {
		Scrapes []struct {
			Job string `json:"job_name"`
			SD  []struct {
				Role       string
				Namespaces struct{ Names []string }
			} `json:"kubernetes_sd_configs"`
			Relabelings []relabeling `json:"relabel_configs"`
		} `json:"scrape_configs"`
	}
	if err := yaml.Unmarshal([]byte(read(t, "manifests/monitoring/prometheus/prometheus.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	plain := map[string]string{}
	for _, s := range config.Scrapes {
		keep, node := s.Relabelings[0], s.Relabelings[1]
		name, port, _ := strings.Cut(keep.Regex, ";")
		if keep.Action != "keep" || name != s.Job || node.Target != "node" || node.SourceLabels[0] != "__meta_kubernetes_pod_node_name" {
			t.Errorf("job %s: %+v", s.Job, s.Relabelings)
		}
		for _, r := range s.Relabelings {
			if r.Target == "__address__" { // of a port that no container declares
				_, port, _ = strings.Cut(r.Replacement, ":")
			}
		}
		plain[s.Job] = s.SD[0].Namespaces.Names[0] + " " + port
	}
	operator := map[string]string{}
	for _, o := range rendered(t, "operator") {
		if o["kind"] != "PodMonitor" {
			continue
		}
		var m struct {
			Metadata struct {
				Name   string
				Labels map[string]string
			}
			Spec struct {
				JobLabel          string
				NamespaceSelector struct{ MatchNames []string }
				Selector          struct{ MatchLabels map[string]string }
				Endpoints         []struct {
					Port, Path  string
					PortNumber  int
					Relabelings []struct {
						SourceLabels []string
						TargetLabel  string
					}
				} `json:"podMetricsEndpoints"`
			}
		}
		text, err := yaml.Marshal(o)
		if err != nil {
			t.Fatal(err)
		}
		if err := yaml.Unmarshal(text, &m); err != nil {
			t.Fatal(err)
		}
		e := m.Spec.Endpoints[0]
		// The operator uses a pod's label as the job.
		if m.Spec.JobLabel != "app.kubernetes.io/name" || m.Spec.Selector.MatchLabels[m.Spec.JobLabel] != m.Metadata.Name || e.Relabelings[0].TargetLabel != "node" {
			t.Errorf("PodMonitor %s: %+v", m.Metadata.Name, m.Spec)
		}
		operator[m.Metadata.Name] = m.Spec.NamespaceSelector.MatchNames[0] + " " + cmp.Or(e.Port, strconv.Itoa(e.PortNumber))
	}
	pods := map[string]string{"nadra-node": "nadra 9078", "nadra-controller": "nadra-system metrics"}
	if !reflect.DeepEqual(plain, pods) || !reflect.DeepEqual(operator, pods) {
		t.Errorf("Prometheus asks %v, the operator's %v, want %v", plain, operator, pods)
	}
	for _, file := range []string{"manifests/base/node-daemonset.yaml", "manifests/drop-in/controller/deployment.yaml"} {
		text := read(t, file)
		for name, at := range pods {
			namespace, port, _ := strings.Cut(at, " ")
			if strings.Contains(text, "name: "+name+"\n") && (!strings.Contains(text, "namespace: "+namespace+"\n") || !strings.Contains(text, "- name: "+port+"\n") && !strings.Contains(text, "metrics on port "+port+" ")) {
				t.Errorf("%s has no %s", file, at)
			}
		}
	}
}

// rendered returns the objects that `kubectl apply -k` of a folder would apply.
func rendered(t *testing.T, folder string) []map[string]any {
	t.Helper()
	built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(root, "manifests", "monitoring", folder))
	if err != nil {
		t.Fatal(err)
	}
	var out []map[string]any
	for _, r := range built.Resources() {
		o, err := r.Map()
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, o)
	}
	return out
}
