package cli

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestScanSeesNewKinds scans a cluster, which caches its kinds on disk, as each kubectl does. Then the
// cluster gets the CRD of NetworkAttachmentDefinitions and one object, and a scan must report it.
func TestScanSeesNewKinds(t *testing.T) {
	t.Setenv("KUBECACHEDIR", t.TempDir())
	answers := map[string]string{
		"/api":    `{"versions": ["v1"]}`,
		"/api/v1": `{"groupVersion": "v1", "resources": [{"name": "secrets", "kind": "Secret", "namespaced": true}]}`,
		"/apis":   `{"groups": []}`,
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

	scan := func() string {
		out, errs, code := runAgainst(t, server, "scan", "-A")
		if code != CodeOK {
			t.Fatalf("exit code %d: %s", code, errs)
		}
		return out
	}
	scan()
	answers["/apis"] = `{"groups": [{"name": "k8s.cni.cncf.io", "versions": [{"groupVersion": "k8s.cni.cncf.io/v1", "version": "v1"}],
		"preferredVersion": {"groupVersion": "k8s.cni.cncf.io/v1", "version": "v1"}}]}`
	answers["/apis/k8s.cni.cncf.io/v1"] = `{"groupVersion": "k8s.cni.cncf.io/v1", "resources": [
		{"name": "network-attachment-definitions", "kind": "NetworkAttachmentDefinition", "namespaced": true, "verbs": ["list"]}]}`
	answers["/apis/k8s.cni.cncf.io/v1/network-attachment-definitions"] = `{
		"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinitionList", "items": [{
			"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"namespace": "default", "name": "net"},
			"spec": {"config": "{\"cniVersion\": \"1.0.0\", \"type\": \"bridge\"}"}
		}]}`
	if out := scan(); !strings.Contains(out, "1 network: 1 ready") {
		t.Errorf("a scan after the CRD was installed prints:\n%s", out)
	}
}
