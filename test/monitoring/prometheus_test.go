//go:build e2e

package monitoring

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/test/lab"
)

// programs returns Prometheus' two programs: the machine's, or those of Debian's package,
// unpacked into bin/, because an installed service would be started.
func programs(t *testing.T) (server, tool string) {
	t.Helper()
	server, err1 := exec.LookPath("prometheus")
	tool, err2 := exec.LookPath("promtool")
	if err1 == nil && err2 == nil {
		return server, tool
	}
	dir, err := filepath.Abs(filepath.Join(root, "bin", "monitoring"))
	if err != nil {
		t.Fatal(err)
	}
	server, tool = filepath.Join(dir, "usr/bin/prometheus"), filepath.Join(dir, "usr/bin/promtool")
	if _, err := os.Stat(tool); err == nil {
		return server, tool
	}
	if err := lab.Unpack(t.Context(), dir, "prometheus"); err != nil {
		t.Fatalf("%v (on other systems than Debian install prometheus and promtool)", err)
	}
	return server, tool
}

func in(dir, name string, args ...string) (string, error) {
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func must(t *testing.T, out string, err error) {
	t.Helper()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	t.Log(strings.TrimSpace(out))
}

// TestPromtool checks that promtool accepts rules and configuration, and that each alert
// fires when it should and not before. Debian's promtool is built without the discovery of
// Kubernetes' pods, so only TestScrapesAreTheSame reads that part of the configuration.
func TestPromtool(t *testing.T) {
	_, tool := programs(t)
	out, err := in(filepath.Join(root, "manifests", "monitoring", "prometheus"), tool, "check", "rules", "rules.yaml")
	must(t, out, err)
	dir := t.TempDir()
	writeFastConfig(t, dir, "127.0.0.1:9078", "127.0.0.1:8080")
	out, err = in(dir, tool, "check", "config", "prometheus.yaml")
	must(t, out, err)
	out, err = in(filepath.Join(root, "test", "monitoring", "testdata"), tool, "test", "rules", "alerts.yaml")
	must(t, out, err)
}

// TestDashboardsAreParsed checks that every expression of a dashboard can be parsed, as one
// of a rule.
func TestDashboardsAreParsed(t *testing.T) {
	_, tool := programs(t)
	type recording struct {
		Record string `json:"record"`
		Expr   string `json:"expr"`
	}
	var all []recording
	for file, d := range dashboards(t) {
		for _, p := range d.Panels {
			for _, target := range p.Targets {
				name := fmt.Sprintf("%s:panel%d:%s", strings.ReplaceAll(strings.TrimSuffix(file, ".json"), "-", "_"), p.ID, target.RefID)
				expr := strings.NewReplacer("$__rate_interval", "5m", "$node", ".*").Replace(target.Expr)
				all = append(all, recording{name, expr})
			}
		}
	}
	slices.SortFunc(all, func(a, b recording) int { return strings.Compare(a.Record, b.Record) })
	text, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": "dashboards", "rules": all}}})
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "dashboards.yaml")
	if err := os.WriteFile(file, text, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := in(".", tool, "check", "rules", file)
	must(t, out, err)
	if !strings.Contains(out, fmt.Sprintf("%d rules found", len(all))) {
		t.Errorf("of %d expressions: %s", len(all), out)
	}
}

// ours serves the metrics of a node and a controller while everything fails.
func ours(t *testing.T) (node, controller string) {
	t.Helper()
	n, nodeHappens := nodeSample(failing)
	registry, controllerHappens := controllerSample(t)
	serve := func(h http.Handler, happens func()) string {
		mux := http.NewServeMux()
		mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
			happens() // once more with every scrape
			h.ServeHTTP(w, r)
		})
		s := httptest.NewServer(mux)
		t.Cleanup(s.Close)
		return s.Listener.Addr().String()
	}
	return serve(n.Handler(), nodeHappens), serve(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}), controllerHappens)
}

// writeFastConfig writes the configuration and the rules of the manifests with fixed
// targets instead of discovered pods, and without waiting times.
func writeFastConfig(t *testing.T, dir, node, controller string) {
	t.Helper()
	var config map[string]any
	if err := yaml.Unmarshal([]byte(read(t, "manifests/monitoring/prometheus/prometheus.yaml")), &config); err != nil {
		t.Fatal(err)
	}
	config["global"] = map[string]any{"scrape_interval": "1s", "evaluation_interval": "1s"}
	for _, s := range config["scrape_configs"].([]any) {
		job := s.(map[string]any)
		delete(job, "kubernetes_sd_configs")
		name, address, port := job["job_name"].(string), node, "http"
		if name == "nadra-controller" {
			address, port = controller, "metrics"
		}
		labels := map[string]any{
			"__meta_kubernetes_pod_label_app_kubernetes_io_name": name, "__meta_kubernetes_pod_container_port_name": port,
			"__meta_kubernetes_pod_node_name": "worker-1", "__meta_kubernetes_pod_name": name + "-x",
		}
		other := map[string]any{"__meta_kubernetes_pod_label_app_kubernetes_io_name": "other", "__meta_kubernetes_pod_container_port_name": port}
		job["static_configs"] = []any{
			map[string]any{"targets": []any{address}, "labels": labels},
			map[string]any{"targets": []any{"127.0.0.1:1"}, "labels": other},
		}
	}
	var r rules
	decode(t, read(t, rulesFile), &r)
	for i := range r.Groups {
		for j := range r.Groups[i].Rules {
			r.Groups[i].Rules[j].For = ""
		}
	}
	for name, content := range map[string]any{"prometheus.yaml": config, "rules.yaml": r} {
		text, err := yaml.Marshal(content)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// startServer starts Prometheus on loopback and returns its address.
func startServer(t *testing.T, program, dir string) string {
	t.Helper()
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := free.Addr().String()
	if err := free.Close(); err != nil {
		t.Fatal(err)
	}
	log, err := os.Create(filepath.Join(dir, "log"))
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, program, "--config.file="+filepath.Join(dir, "prometheus.yaml"),
		"--storage.tsdb.path="+filepath.Join(dir, "data"), "--web.listen-address="+address)
	cmd.Stdout, cmd.Stderr = log, log
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		cancel()
		_ = cmd.Wait() // it was killed
		log.Close()
		if t.Failed() {
			text, _ := os.ReadFile(log.Name())
			t.Logf("Prometheus:\n%s", text)
		}
	})
	return "http://" + address
}

func get(ctx context.Context, url string, into any) error {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	answer, err := http.DefaultClient.Do(r)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s: %s", answer.Status, text)
	}
	if err != nil || into == nil {
		return err
	}
	return json.Unmarshal(text, into)
}

// loaded is a rule as the server reports it.
type loaded struct {
	Name, Health, LastError, State string
	Alerts                         []struct {
		State               string
		Labels, Annotations map[string]string
	}
}

// TestPrometheusFires checks that Prometheus scrapes nadra, evaluates every rule, and fires
// the alerts of a node on which everything fails, with complete texts.
func TestPrometheusFires(t *testing.T) {
	server, _ := programs(t)
	dir := t.TempDir()
	node, controller := ours(t)
	writeFastConfig(t, dir, node, controller)
	address := startServer(t, server, dir)
	// promtool tries these: the sample answers, has no connection whose limit could be low,
	// and does not get worse.
	elsewhere := []string{"NadraDriverDown", "NadraWebhookDown", "NadraNRITimeoutLow", "NadraOrphansRising"}
	var all []loaded
	err := lab.Eventually(t.Context(), time.Minute, func(ctx context.Context) error {
		var answer struct {
			Data struct {
				Groups []struct{ Rules []loaded }
			}
		}
		if err := get(ctx, address+"/api/v1/rules", &answer); err != nil {
			return err
		}
		all = nil
		for _, g := range answer.Data.Groups {
			all = append(all, g.Rules...)
		}
		if len(all) != len(allRules(t)) {
			return fmt.Errorf("%d rules are loaded", len(all))
		}
		var errs []error
		for _, r := range all {
			if r.Health != "ok" {
				errs = append(errs, fmt.Errorf("%s: health %s: %s", r.Name, r.Health, r.LastError))
			} else if r.State != "firing" && !slices.Contains(elsewhere, r.Name) {
				errs = append(errs, fmt.Errorf("%s is %s", r.Name, r.State))
			}
		}
		return errors.Join(errs...)
	})
	if err != nil {
		t.Error(err)
	}
	for _, r := range all {
		for _, a := range r.Alerts {
			for name, text := range a.Annotations {
				if strings.Contains(text, "no value") || strings.Contains(text, "error expanding") || strings.Contains(text, "{{") || strings.Contains(text, "  ") {
					t.Errorf("%s: %s: %s", r.Name, name, text)
				}
			}
			if r.Name == "NadraNRIDisconnected" && (a.Labels["node"] != "worker-1" || !strings.Contains(a.Annotations["summary"], "of worker-1.")) {
				t.Errorf("%s: %v, %v", r.Name, a.Labels, a.Annotations)
			}
			t.Logf("%s: %s", r.Name, a.Annotations["summary"])
		}
	}
	everySeriesIsScraped(t, address)
}

// everySeriesIsScraped checks that the server has all metrics, with the labels that the
// configuration adds.
func everySeriesIsScraped(t *testing.T, address string) {
	t.Helper()
	for name := range everything(t) {
		if !strings.HasPrefix(name, "nadra_") {
			continue
		}
		var answer struct{ Data []map[string]string }
		err := get(t.Context(), address+"/api/v1/series?match[]="+name, &answer)
		if known := everything(t)[name]; err == nil && len(answer.Data) == 0 && (known.kind != "histogram" || strings.HasSuffix(name, "_bucket")) {
			err = errors.New("there is none")
		}
		if err != nil {
			t.Errorf("series of %s: %v", name, err)
		}
		for _, s := range answer.Data {
			if s["node"] != "worker-1" || !strings.HasPrefix(s["job"], "nadra-") || s["pod"] != s["job"]+"-x" {
				t.Errorf("a series of %s is %v", name, s)
			}
		}
	}
}
