package webhook

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"testing"

	jsonpatch "github.com/evanphx/json-patch/v5"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"github.com/prometheus/client_golang/prometheus"
	admissionv1 "k8s.io/api/admission/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	ctrladmission "sigs.k8s.io/controller-runtime/pkg/webhook/admission"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// world has an API server, and a cache that the test fills.
type world struct {
	api, cache client.WithWatch
	// requests has the requests to the API server.
	requests []string
	mu       sync.Mutex
	// fails returns the error of the API server for a request, or nil.
	fails   func(request string) error
	handler *podHandler
	decided map[admission.Outcome]int
}

func schemeOf(t testing.TB) *runtime.Scheme {
	t.Helper()
	s := runtime.NewScheme()
	if err := AddToScheme(s); err != nil {
		t.Fatal(err)
	}
	return s
}

// newWorld returns a world with objects in the API server and, if cached is set, in the cache.
func newWorld(t testing.TB, o Options, cached bool, objects ...client.Object) *world {
	t.Helper()
	s := schemeOf(t)
	w := &world{decided: map[admission.Outcome]int{}}
	w.api = interceptor.NewClient(fake.NewClientBuilder().WithScheme(s).WithObjects(copies(objects)...).Build(), interceptor.Funcs{
		Get: func(ctx context.Context, c client.WithWatch, key client.ObjectKey, into client.Object, opts ...client.GetOption) error {
			if err := w.request("get", key.String()); err != nil {
				return err
			}
			return c.Get(ctx, key, into, opts...)
		},
		Create: func(ctx context.Context, c client.WithWatch, o client.Object, opts ...client.CreateOption) error {
			if err := w.request("create", client.ObjectKeyFromObject(o).String()); err != nil {
				return err
			}
			return c.Create(ctx, o, opts...)
		},
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			if _, slices := list.(*resourceapi.ResourceSliceList); !slices {
				t.Errorf("a list of %T", list)
			}
			if err := w.request("list", "slices"); err != nil {
				return err
			}
			return c.List(ctx, list, opts...)
		},
	})
	if !cached {
		objects = nil
	}
	w.cache = fake.NewClientBuilder().WithScheme(s).WithObjects(copies(objects)...).Build()
	w.handler = &podHandler{
		decider: &Decider{o.admission(), newReader(w.cache, w.api), newPoolIndex(w.api)},
		decided: func(o admission.Outcome) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.decided[o]++
		},
	}
	return w
}

func copies(objects []client.Object) []client.Object {
	var out []client.Object
	for _, o := range objects {
		out = append(out, o.DeepCopyObject().(client.Object))
	}
	return out
}

func (w *world) request(verb, key string) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	request := verb + " " + key
	w.requests = append(w.requests, request)
	if w.fails == nil {
		return nil
	}
	return w.fails(request)
}

// nadra returns a namespace that nadra serves.
func nadra(name string) *corev1.Namespace {
	return &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}}}
}

func network(namespace, name string) *nadv1.NetworkAttachmentDefinition {
	return &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion": "1.0.0", "type": "bridge"}`},
	}
}

// podWith returns a pod with the annotation.
func podWith(networks string) []byte {
	return fmt.Appendf(nil, `{"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": "web-", "annotations": {%q: %q}},
		"spec": {"containers": [{"name": "a", "image": "i", "resources": {}}]}}`, attachment.NetworksAnnotation, networks)
}

func creating(object []byte, kind string) ctrladmission.Request {
	return ctrladmission.Request{AdmissionRequest: admissionv1.AdmissionRequest{
		UID: "1", Operation: admissionv1.Create, Namespace: "shop",
		Kind: metav1.GroupVersionKind{Kind: kind}, Object: runtime.RawExtension{Raw: object},
	}}
}

// patched returns the pod after the response.
func patched(t *testing.T, pod []byte, r ctrladmission.Response) *corev1.Pod {
	t.Helper()
	if !r.Allowed {
		t.Fatalf("refused: %s", r.Result.Message)
	}
	if len(r.Patch) > 0 {
		patch, err := jsonpatch.DecodePatch(r.Patch)
		if err != nil {
			t.Fatal(err)
		}
		if pod, err = patch.Apply(pod); err != nil {
			t.Fatal(err)
		}
	}
	out := &corev1.Pod{}
	if err := json.Unmarshal(pod, out); err != nil {
		t.Fatal(err)
	}
	return out
}

func metersOf(t testing.TB) (*meters, *prometheus.Registry) {
	t.Helper()
	r := prometheus.NewRegistry()
	m, err := newMeters(r)
	if err != nil {
		t.Fatal(err)
	}
	return m, r
}
