package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestTroubleHasARemedy runs a command against clusters that do not let the user in.
func TestTroubleHasARemedy(t *testing.T) {
	for status, want := range map[int]string{http.StatusUnauthorized: "log in again", http.StatusForbidden: "ask for this right"} {
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "application/json")
			w.WriteHeader(status)
			fmt.Fprintf(w, `{"kind": "Status", "apiVersion": "v1", "status": "Failure", "reason": %q, "code": %d}`, strings.ReplaceAll(http.StatusText(status), " ", ""), status)
		}))
		t.Cleanup(server.Close)
		_, errs, code := runAgainst(t, server, "scan")
		if code != CodeError || !strings.Contains(errs, want) || !strings.Contains(errs, "GET /api") {
			t.Errorf("with status %d: exit code %d, want one line with %q:\n%s", status, code, want, errs)
		}
		_, errs, code = runAgainst(t, server, "get", "attachments")
		if code != CodeError || !strings.Contains(errs, want) || strings.Count(errs, "\n") != 1 {
			t.Errorf("with status %d: exit code %d, want one line with %q:\n%s", status, code, want, errs)
		}
	}
}

// TestExplainTakesWorkloads explains a Deployment: its second pod is not ready, and is the one that is explained.
func TestExplainTakesWorkloads(t *testing.T) {
	t.Setenv("KUBECACHEDIR", t.TempDir())
	pod := func(name, ready string) string {
		return fmt.Sprintf(`{"apiVersion": "v1", "kind": "Pod", "metadata": {"namespace": "shop", "name": %q}, "spec": {"containers": [{"name": "c"}]},
			"status": {"phase": "Running", "conditions": [{"type": "Ready", "status": %q}]}}`, name, ready)
	}
	answers := map[string]string{
		"/api":    `{"versions": ["v1"]}`,
		"/api/v1": `{"groupVersion": "v1", "resources": [{"name": "pods", "kind": "Pod", "namespaced": true, "verbs": ["get", "list"]}]}`,
		"/apis":   `{"groups": [{"name": "apps", "versions": [{"groupVersion": "apps/v1", "version": "v1"}], "preferredVersion": {"groupVersion": "apps/v1", "version": "v1"}}]}`,
		"/apis/apps/v1": `{"groupVersion": "apps/v1", "resources": [
			{"name": "deployments", "singularName": "deployment", "shortNames": ["deploy"], "kind": "Deployment", "namespaced": true, "verbs": ["get", "list"]}]}`,
		"/apis/apps/v1/namespaces/shop/deployments/web": `{"apiVersion": "apps/v1", "kind": "Deployment", "metadata": {"namespace": "shop", "name": "web"},
			"spec": {"selector": {"matchLabels": {"app": "web"}}}}`,
		"/api/v1/namespaces/shop/pods":       `{"apiVersion": "v1", "kind": "PodList", "items": [` + pod("web-1", "True") + "," + pod("web-2", "False") + "]}",
		"/api/v1/namespaces/shop/pods/web-1": pod("web-1", "True"),
		"/api/v1/namespaces/shop/pods/web-2": pod("web-2", "False"),
	}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		answer, found := answers[r.URL.Path]
		if !found {
			http.NotFound(w, r)
			return
		}
		fmt.Fprint(w, answer)
	}))
	t.Cleanup(server.Close)
	out, errs, code := runAgainst(t, server, "explain", "deploy/web", "-n", "shop", "-o", "jsonpath={.pod}")
	if code != CodeOK || out != "web-2" {
		t.Errorf("exit code %d, pod %q: %s", code, out, errs)
	}
}
