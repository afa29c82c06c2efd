package webhook

import (
	"bytes"
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	admissionv1 "k8s.io/api/admission/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client/apiutil"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/metrics/server"

	"github.com/nadra-dev/nadra/pkg/admission"
)

// newManager returns a manager that is never started.
func newManager(t *testing.T) manager.Manager {
	t.Helper()
	s := schemeOf(t)
	mgr, err := manager.New(&rest.Config{}, manager.Options{
		Scheme: runtime.NewScheme(), Metrics: server.Options{BindAddress: "0"},
		MapperProvider: func(*rest.Config, *http.Client) (meta.RESTMapper, error) {
			m := meta.NewDefaultRESTMapper(nil)
			for _, o := range cachedObjects() {
				gvk, err := apiutil.GVKForObject(o, s)
				if err != nil {
					return nil, err
				}
				m.Add(gvk, meta.RESTScopeNamespace)
			}
			return m, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return mgr
}

func TestRegister(t *testing.T) {
	mgr := newManager(t)
	if err := Register(mgr, Options{}, NewDecider(mgr, Options{})); err != nil {
		t.Fatal(err)
	}
	// A second manager of the process has metrics, too.
	if err := Register(newManager(t), Options{Options: admission.Options{DefaultOwner: "nadra"}}, nil); err != nil {
		t.Fatal(err)
	}
	if err := Register(newManager(t), Options{Options: admission.Options{DefaultOwner: "me"}}, nil); err == nil || !strings.Contains(err.Error(), `"me"`) {
		t.Errorf("got %v", err)
	}
	mux := mgr.GetWebhookServer().WebhookMux()
	for path, object := range map[string]string{
		// The cache is not started, so this pod must need no other object.
		MutatePodsPath:     `{"apiVersion": "v1", "kind": "Pod", "spec": {"hostNetwork": true}}`,
		ValidateClaimsPath: `{"apiVersion": "resource.k8s.io/v1", "kind": "DeviceClass"}`,
	} {
		review := admissionv1.AdmissionReview{Request: &admissionv1.AdmissionRequest{UID: "1", Operation: admissionv1.Create, Object: runtime.RawExtension{Raw: []byte(object)}}}
		review.SetGroupVersionKind(admissionv1.SchemeGroupVersion.WithKind("AdmissionReview"))
		review.Request.Kind.Kind = "DeviceClass"
		text, err := json.Marshal(review)
		if err != nil {
			t.Fatal(err)
		}
		req := httptest.NewRequest(http.MethodPost, path, bytes.NewReader(text))
		req.Header.Set("Content-Type", "application/json")
		req.RemoteAddr = "127.0.0.1:4711"
		answer := deadlines{httptest.NewRecorder()}
		mux.ServeHTTP(answer, req)
		var got admissionv1.AdmissionReview
		if err := json.Unmarshal(answer.Body.Bytes(), &got); err != nil || got.Response == nil || !got.Response.Allowed || got.Response.UID != "1" {
			t.Errorf("%s: got %s, %v", path, answer.Body, err)
		}
	}
}

// TestReady checks that a manager is not ready before its caches are synced.
func TestReady(t *testing.T) {
	mgr := newManager(t)
	if err := Register(mgr, Options{}, NewDecider(mgr, Options{})); err != nil {
		t.Fatal(err)
	}
	if err := synced(mgr.GetCache())(httptest.NewRequest(http.MethodGet, "/readyz", nil)); err == nil || !strings.Contains(err.Error(), "NetworkAttachmentDefinition") {
		t.Errorf("got %v", err)
	}
}
