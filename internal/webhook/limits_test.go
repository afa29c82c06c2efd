package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// TestBeyondALimit checks that a pod beyond a limit is refused with the code before any network is read
// or template created.
func TestBeyondALimit(t *testing.T) {
	for name, annotation := range map[string]string{
		"networks":                      strings.Repeat("lan,", v1alpha1.MaxNetworks) + "lan",
		"as many as fit into an object": strings.Repeat("a,", 128_000) + "a",
		"elements":                      "[" + strings.Repeat(`{"name":"lan"},`, v1alpha1.MaxNetworks) + `{"name":"lan"}]`,
		"depth":                         `[{"name":"lan","cni-args":{"k":` + strings.Repeat("[", 100_000) + strings.Repeat("]", 100_000) + `}}]`,
		"a request":                     fmt.Sprintf(`[{"name":"lan","cni-args":{"k":%q}}]`, strings.Repeat("x", v1alpha1.MaxRequest)),
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
			_, message := handle(w, annotation)
			if reason.In(message) != reason.LimitExceeded || len(message) > 2<<10 {
				t.Errorf("got %d bytes: %.300s", len(message), message)
			}
			for _, r := range w.requests {
				if strings.HasPrefix(r, "create") || strings.Contains(r, "lan") {
					t.Errorf("the request %s", r)
				}
			}
		})
	}
}

// TestCallerLeaves checks that a request whose caller has left reads nothing and creates nothing.
func TestCallerLeaves(t *testing.T) {
	w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	r := w.handler.Handle(ctx, creating(podWith("lan"), "Pod"))
	if r.Allowed || r.Result.Code != http.StatusInternalServerError || len(w.requests) > 0 {
		t.Errorf("got %+v after %v", r.Result, w.requests)
	}
}

// TestManyMissingObjects checks that one request reads a limited number of objects that do not exist, for example of the
// classes that a template names.
func TestManyMissingObjects(t *testing.T) {
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "t"}}
	for i := range resourceapi.DeviceRequestsMaxSize {
		r := resourceapi.DeviceRequest{Name: fmt.Sprint("r", i)}
		for j := range resourceapi.FirstAvailableDeviceRequestMaxSize {
			r.FirstAvailable = append(r.FirstAvailable, resourceapi.DeviceSubRequest{Name: fmt.Sprint("s", j), DeviceClassName: fmt.Sprintf("class-%d-%d", i, j)})
		}
		template.Spec.Spec.Devices.Requests = append(template.Spec.Spec.Devices.Requests, r)
	}
	w := newWorld(t, Options{}, true, nadra("shop"), template)
	r := w.handler.Handle(t.Context(), creating([]byte(`{"apiVersion": "v1", "kind": "Pod", "spec": {"containers": [{"name": "a", "image": "i"}],
		"resourceClaims": [{"name": "a", "resourceClaimTemplateName": "t"}]}}`), "Pod"))
	if r.Allowed || reason.In(r.Result.Message) != reason.LimitExceeded || len(w.requests) > maxMissed {
		t.Errorf("got %+v after %d requests", r.Result, len(w.requests))
	}
}

// TestCallerLeavesTemplates checks that the search for templates ends with its caller: it reads nothing more, neither from
// the API server nor from the cache.
func TestCallerLeavesTemplates(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	w := newWorld(t, Options{}, false, nadra("shop"), network("shop", "lan"))
	w.fails = func(string) error { cancel(); return nil }
	read := 0
	w.handler.decider.reader.cached = interceptor.NewClient(w.cache, interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			read++
			return c.Get(ctx, key, into, opts...)
		},
	})
	var pod corev1.Pod
	if err := json.Unmarshal(podWith("lan"), &pod); err != nil {
		t.Fatal(err)
	}
	pod.Namespace = "shop"
	for i := range 10 {
		made := fmt.Sprintf("nadra-lan-%010d", i)
		pod.Spec.ResourceClaims = append(pod.Spec.ResourceClaims, corev1.PodResourceClaim{Name: made, ResourceClaimTemplateName: &made})
	}
	made, _, err := w.handler.decider.Templates(ctx, &pod)
	if err == nil || len(made) > 0 || read != 1 || len(w.requests) != 1 {
		t.Errorf("got %v, %v after %d reads of the cache and %v", made, err, read, w.requests)
	}
}
