package cli

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// TestScanSeesNewKinds scans a cluster, which caches its kinds on disk, as each kubectl does. Then the
// cluster gets the CRD of NetworkAttachmentDefinitions and one object, and a scan must report it.
func TestScanSeesNewKinds(t *testing.T) {
	t.Setenv("KUBECACHEDIR", t.TempDir())
	installed := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "application/json")
		var answer any
		switch {
		case r.URL.Path == "/api":
			answer = metav1.APIVersions{Versions: []string{"v1"}}
		case r.URL.Path == "/api/v1":
			answer = metav1.APIResourceList{GroupVersion: "v1", APIResources: []metav1.APIResource{{Name: "secrets", Kind: "Secret", Namespaced: true}}}
		case r.URL.Path == "/apis" && installed:
			version := metav1.GroupVersionForDiscovery{GroupVersion: "k8s.cni.cncf.io/v1", Version: "v1"}
			answer = metav1.APIGroupList{Groups: []metav1.APIGroup{{
				Name: "k8s.cni.cncf.io", Versions: []metav1.GroupVersionForDiscovery{version}, PreferredVersion: version,
			}}}
		case r.URL.Path == "/apis":
			answer = metav1.APIGroupList{}
		case r.URL.Path == "/apis/k8s.cni.cncf.io/v1" && installed:
			answer = metav1.APIResourceList{GroupVersion: "k8s.cni.cncf.io/v1", APIResources: []metav1.APIResource{{
				Name: "network-attachment-definitions", Kind: "NetworkAttachmentDefinition", Namespaced: true, Verbs: []string{"list"},
			}}}
		case r.URL.Path == "/apis/k8s.cni.cncf.io/v1/network-attachment-definitions" && installed:
			fmt.Fprint(w, `{"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinitionList", "items": [{
				"apiVersion": "k8s.cni.cncf.io/v1", "kind": "NetworkAttachmentDefinition", "metadata": {"namespace": "default", "name": "net"},
				"spec": {"config": "{\"cniVersion\": \"1.0.0\", \"type\": \"bridge\"}"}
			}]}`)
			return
		default:
			http.NotFound(w, r)
			return
		}
		if err := json.NewEncoder(w).Encode(answer); err != nil {
			t.Error(err)
		}
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
	installed = true
	if out := scan(); !strings.Contains(out, "1 network: 1 ready") {
		t.Errorf("a scan after the CRD was installed prints:\n%s", out)
	}
}
