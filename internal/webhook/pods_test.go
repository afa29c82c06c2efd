package webhook

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"

	"github.com/nadra-dev/nadra/pkg/admission"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// handle returns the response to a controller's pod with the annotation.
func handle(w *world, networks string) (response int32, message string) {
	const controlled = `{"generateName": "web-", "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": "u", "controller": true}], `
	pod := []byte(strings.Replace(string(podWith(networks)), `{"generateName": "web-", `, controlled, 1))
	r := w.handler.Handle(context.Background(), creating(pod, "Pod"))
	if r.Allowed {
		return http.StatusOK, ""
	}
	return r.Result.Code, r.Result.Message
}

// templateOf returns the template to which an admitted pod refers, as the controller creates it.
func templateOf(t *testing.T, w *world, p *corev1.Pod) *resourceapi.ResourceClaimTemplate {
	t.Helper()
	if len(p.Spec.ResourceClaims) != 1 || len(p.Spec.Containers[0].Resources.Claims) != 1 {
		t.Fatalf("got %+v", p.Spec)
	}
	p.Namespace = "shop"
	made, refusal, err := w.handler.decider.Templates(t.Context(), p)
	out := made[*p.Spec.ResourceClaims[0].ResourceClaimTemplateName]
	if err != nil || refusal != "" || out == nil {
		t.Fatalf("pod %s has no template: %s, %v", p.Name, refusal, err)
	}
	return out
}

// TestWritesNothing checks that pods of equal needs refer to one template, and that no object is written
// for them, nor anything read that the cache has.
func TestWritesNothing(t *testing.T) {
	w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
	names := map[string]bool{}
	for range 200 {
		made := patched(t, podWith("lan"), w.handler.Handle(context.Background(), creating(podWith("lan"), "Pod")))
		names[templateOf(t, w, made).Name] = true
	}
	if len(w.requests) != 0 || len(names) != 1 || w.decided[admission.Converted] != 200 {
		t.Errorf("got templates %v and outcomes %v after requests %v", names, w.decided, w.requests)
	}
}

// TestChangedPod checks that a pod whose author changes its networks after admission does not get the
// template of a name that he chooses, nor a network that isolation excludes.
func TestChangedPod(t *testing.T) {
	o := Options{Options: admission.Options{Isolation: attachment.Isolation{On: true}}}
	w := newWorld(t, o, true, nadra("shop"), network("shop", "lan"), network("shop", "wan"), network("infra", "lan"))
	pod := patched(t, podWith("lan"), w.handler.Handle(t.Context(), creating(podWith("lan"), "Pod")))
	name := templateOf(t, w, pod).Name
	for networks, refused := range map[string]bool{"wan": false, "lan@other": false, "infra/lan": true, "infra/gone": true, "gone": false} {
		pod.Annotations[attachment.NetworksAnnotation] = networks
		made, refusal, err := w.handler.decider.Templates(t.Context(), pod)
		if err != nil || made[name] != nil || refused && len(made) > 0 || refused != (reason.In(refusal) == reason.NotConvertible) {
			t.Errorf("%s: got %v, refusal %q, %v", networks, made, refusal, err)
		}
		// It is nothing to the author whether a network that he may not use exists.
		if strings.Contains(refusal, "NADRA-0") {
			t.Errorf("%s: refusal %q", networks, refusal)
		}
	}
	pod.Annotations[attachment.NetworksAnnotation], pod.Labels = "lan", map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerMultus}
	if made, refusal, err := w.handler.decider.Templates(t.Context(), pod); err != nil || len(made) > 0 || refusal == "" {
		t.Errorf("a pod of Multus: got %v, refusal %q, %v", made, refusal, err)
	}
}

// TestPoolChangesHands checks that a pod gets its template whatever this replica knows about the server of
// its pool.
func TestPoolChangesHands(t *testing.T) {
	vf := network("shop", "vf")
	vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
	published := func(driver string) *resourceapi.ResourceSlice {
		return &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourceapi.ResourceSliceSpec{
			Driver: driver,
			Devices: []resourceapi.Device{{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				attachment.AttributeResourceName: {StringValue: ptr.To("example.com/vf")},
			}}},
		}}
	}
	raw := []byte(strings.Replace(string(podWith("vf")), `"resources": {}`, `"resources": {"limits": {"example.com/vf": "1"}}`, 1))
	names := map[string]bool{}
	for _, driver := range []string{v1alpha1.DriverName, "other.example.com"} {
		w := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), vf, published(driver))
		pod := patched(t, raw, w.handler.Handle(t.Context(), creating(raw, "Pod")))
		names[templateOf(t, w, pod).Name] = true
		for _, other := range []*resourceapi.ResourceSlice{published("third.example.com"), published(v1alpha1.DriverName), nil} {
			later := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), vf)
			if other != nil {
				later = newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), vf, other)
			}
			made, refusal, err := later.handler.decider.Templates(t.Context(), pod)
			if name := *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName; err != nil || made[name] == nil {
				t.Errorf("pool of %s, then of %v: got %v, refusal %q, %v", driver, other, made, refusal, err)
			}
		}
	}
	if len(names) != 2 {
		t.Errorf("the server of the pool makes no difference: %v", names)
	}
}

// TestTemplatesDoNotWait checks that no pod that waits for its templates delays others, however long the list
// of slices takes.
func TestTemplatesDoNotWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		vf := network("shop", "vf")
		vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
		w := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), vf)
		w.fails = func(request string) error {
			if request == "list slices" {
				time.Sleep(poolsWait)
			}
			return nil
		}
		pod := &corev1.Pod{}
		if err := json.Unmarshal(podWith("vf"), pod); err != nil {
			t.Fatal(err)
		}
		pod.Namespace = "shop"
		began := time.Now()
		if _, _, err := w.handler.decider.Templates(t.Context(), pod); err != nil || time.Since(began) > 0 {
			t.Errorf("it took %s: %v", time.Since(began), err)
		}
		time.Sleep(poolsWait)
	})
}

// TestLongNames checks that names that no object can have are neither asked for nor remembered.
func TestLongNames(t *testing.T) {
	w := newWorld(t, Options{}, true, nadra("shop"))
	pod := []byte(`{"metadata": {"name": "web"}, "spec": {"resourceClaims": [{"name": "net", "resourceClaimName": "` + strings.Repeat("a", 100_000) + `"}], "containers": [{"name": "a"}]}}`)
	w.handler.Handle(t.Context(), creating(pod, "Pod"))
	if len(w.requests) != 0 || len(w.handler.decider.reader.missing.Keys()) != 0 {
		t.Errorf("got %d requests, %d names", len(w.requests), len(w.handler.decider.reader.missing.Keys()))
	}
}

// TestNotYetCached checks that objects are found before the cache has them.
func TestNotYetCached(t *testing.T) {
	w := newWorld(t, Options{}, false, nadra("shop"), network("shop", "lan"))
	templateOf(t, w, patched(t, podWith("lan"), w.handler.Handle(context.Background(), creating(podWith("lan"), "Pod"))))
	if got := w.requests[:2]; !slices.Equal(got, []string{"get /shop", "get shop/lan"}) {
		t.Errorf("got %v", got)
	}
}

// TestMissingNetwork checks that a burst of pods reads a missing network once, and later ones again.
func TestMissingNetwork(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Options{}, true, nadra("shop"))
		for range 50 {
			if code, message := handle(w, "lan"); code != http.StatusForbidden || reason.In(message) != reason.NotConvertible || !strings.Contains(message, "NADRA-011") || !strings.Contains(message, "shop/lan") {
				t.Fatalf("got %d, %s", code, message)
			}
		}
		if len(w.requests) != 1 {
			t.Errorf("got %v", w.requests)
		}
		if err := w.api.Create(context.Background(), network("shop", "lan")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(missingFor + time.Millisecond)
		if code, message := handle(w, "lan"); code != http.StatusOK {
			t.Errorf("got %d, %s", code, message)
		}
	})
}

// TestAwaitedNetwork checks that a pod without a controller is admitted before its network exists, and gets
// the same template whether or not the network exists, and draws from a pool, when the template is created.
func TestAwaitedNetwork(t *testing.T) {
	pooled := network("shop", "late")
	pooled.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
	raw := []byte(strings.Replace(string(podWith("late")), `"resources": {}`, `"resources": {"limits": {"example.com/vf": "1"}}`, 1))
	for name, pod := range map[string][]byte{"without devices": podWith("late"), "with a device": raw} {
		w := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"))
		response := w.handler.Handle(t.Context(), creating(pod, "Pod"))
		admitted := patched(t, pod, response)
		want := templateOf(t, w, admitted)
		if class := want.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName; class != "late.shop.nad.nadra.dev" || !strings.Contains(strings.Join(response.Warnings, ""), "NADRA-085") {
			t.Errorf("%s: class %s, warnings %v", name, class, response.Warnings)
		}
		for _, later := range []*nadv1.NetworkAttachmentDefinition{network("shop", "late"), pooled} {
			made, refusal, err := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), later).handler.decider.Templates(t.Context(), admitted)
			if err != nil || made[want.Name] == nil {
				t.Errorf("%s: got %v, refusal %q, %v; want %s", name, made, refusal, err, want.Name)
			}
		}
	}
}

// TestHazards checks the warnings about a network's addresses and routes, by the addresses of the controller's
// pod, its node and the service kubernetes.
func TestHazards(t *testing.T) {
	lan := network("shop", "lan")
	lan.Spec.Config = `{"cniVersion": "1.0.0", "type": "macvlan", "master": "eth1", "ipam": {"type": "host-local", "subnet": "10.1.0.0/24",
		"routes": [{"dst": "10.96.0.0/16"}, {"dst": "10.244.0.0/16"}, {"dst": "192.0.2.0/24"}, {"dst": "198.51.100.0/24"}]}}`
	w := newWorld(t, Options{ServiceIP: "10.96.0.1", PodIP: "10.244.0.5", HostIP: "192.0.2.7"}, true, nadra("shop"), lan)
	got := strings.Join(w.handler.Handle(t.Context(), creating(podWith("lan"), "Pod")).Warnings, "\n")
	for _, want := range []string{"NADRA-086", "10.96.0.0/16 ", "services (10.96.0.1)", "10.244.0.0/16 ", "pods (10.244.0.5)", "192.0.2.0/24 ", "nodes (192.0.2.7)"} {
		if !strings.Contains(got, want) {
			t.Errorf("the warnings lack %s:\n%s", want, got)
		}
	}
	if strings.Contains(got, "198.51.100") {
		t.Errorf("the warnings have the other route:\n%s", got)
	}
}

// TestLateAnnotation checks that a pod without the annotation is left alone, and gets its claim in the second
// pass, when another webhook has added the annotation.
func TestLateAnnotation(t *testing.T) {
	w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
	if r := w.handler.Handle(t.Context(), creating(podWith(""), "Pod")); !r.Allowed || r.Patch != nil {
		t.Errorf("the first pass changes the pod: %+v", r)
	}
	templateOf(t, w, patched(t, podWith("lan"), w.handler.Handle(t.Context(), creating(podWith("lan"), "Pod"))))
}

// TestTemplateIsThere checks that a template of the same content is used, and that a pod is refused if
// another template has the name of its own.
func TestTemplateIsThere(t *testing.T) {
	first := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"))
	there := templateOf(t, first, patched(t, podWith("lan"), first.handler.Handle(t.Context(), creating(podWith("lan"), "Pod"))))
	w := newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"), there)
	if code, message := handle(w, "lan"); code != http.StatusOK {
		t.Errorf("got %d, %s", code, message)
	}
	there.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = "other"
	w = newWorld(t, Options{}, true, nadra("shop"), network("shop", "lan"), there)
	code, message := handle(w, "lan")
	if code != http.StatusForbidden || reason.In(message) != reason.NotConvertible || !strings.Contains(message, "NADRA-043") || !strings.Contains(message, there.Name) {
		t.Errorf("got %d, %s", code, message)
	}
}

// TestErrors checks that a refusal has code, cause and remedy of an error of the API server.
func TestErrors(t *testing.T) {
	for name, c := range map[string]struct {
		err  error
		code reason.Code
		want []string
	}{
		"reading":       {apierrors.NewServiceUnavailable("etcd is away"), reason.ObjectNotRead, []string{"NetworkAttachmentDefinition shop/lan: etcd is away"}},
		"reading, RBAC": {apierrors.NewForbidden(schema.GroupResource{Resource: "n"}, "lan", errors.New("cannot get resource")), reason.ObjectNotRead, []string{"NetworkAttachmentDefinition shop/lan", "cannot get"}},
	} {
		w := newWorld(t, Options{}, true, nadra("shop"))
		w.fails = func(string) error { return c.err }
		code, message := handle(w, "lan")
		if code != http.StatusInternalServerError || w.decided[admission.Refused] != 1 {
			t.Errorf("%s: got %d, %v", name, code, w.decided)
		}
		if !strings.HasPrefix(message, c.code.Text("")) || strings.Count(message, c.code.Text("")) != 1 {
			t.Errorf("%s: got %s, want code %s", name, message, c.code)
		}
		for _, want := range c.want {
			if !strings.Contains(message, want) {
				t.Errorf("%s: got %s, want %s", name, message, want)
			}
		}
	}
}

// TestUntouched checks that pods without networks cause no requests.
func TestUntouched(t *testing.T) {
	w := newWorld(t, Options{}, true, nadra("shop"))
	for _, req := range []func() ([]byte, string){
		func() ([]byte, string) { return podWith(""), "" },
		func() ([]byte, string) { return podWith("lan"), "ephemeralcontainers" },
	} {
		pod, sub := req()
		r := creating(pod, "Pod")
		r.SubResource = sub
		if got := w.handler.Handle(context.Background(), r); !got.Allowed || got.Patch != nil {
			t.Errorf("got %+v", got)
		}
	}
	if len(w.requests) != 0 {
		t.Errorf("got %v", w.requests)
	}
}

// TestClaimsByHand checks that handwritten claims are found before the cache has them.
func TestClaimsByHand(t *testing.T) {
	const requests = `{"devices": {"requests": [{"name": "a", "exactly": {"deviceClassName": "lan.shop.nad.nadra.dev"}}]}}`
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mine"}}
	claim := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "mine"}}
	for _, spec := range []*resourceapi.ResourceClaimSpec{&template.Spec.Spec, &claim.Spec} {
		if err := json.Unmarshal([]byte(requests), spec); err != nil {
			t.Fatal(err)
		}
	}
	for field, live := range map[string]string{"resourceClaimTemplateName": "get shop/mine", "resourceClaimName": "get shop/mine"} {
		w := newWorld(t, Options{}, false, template, claim)
		pod := []byte(`{"metadata": {"name": "web"}, "spec": {"resourceClaims": [{"name": "net", "` + field + `": "mine"}], "containers": [{"name": "a"}, {"name": "b"}]}}`)
		got := patched(t, pod, w.handler.Handle(context.Background(), creating(pod, "Pod")))
		for _, c := range got.Spec.Containers {
			if len(c.Resources.Claims) != 1 || c.Resources.Claims[0].Name != "net" {
				t.Errorf("%s: container %s refers to %v", field, c.Name, c.Resources.Claims)
			}
		}
		if got.Annotations[attachment.NetworksAnnotation] != "shop/lan" || !slices.Contains(w.requests, live) {
			t.Errorf("%s: annotations %v after %v", field, got.Annotations, w.requests)
		}
	}
	// A missing claim requests nothing.
	w := newWorld(t, Options{}, false)
	pod := []byte(`{"metadata": {"name": "web"}, "spec": {"resourceClaims": [{"name": "net", "resourceClaimName": "mine"}], "containers": [{"name": "a"}]}}`)
	if r := w.handler.Handle(context.Background(), creating(pod, "Pod")); !r.Allowed || r.Patch != nil {
		t.Errorf("got %+v", r)
	}
}

// TestNodesAreNotCopied checks that a pod of a pool that nothing serves costs no copy of all nodes, and that the nodes are
// not read at all for a pod that must run on nadra's.
func TestNodesAreNotCopied(t *testing.T) {
	vf := network("shop", "vf")
	vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
	w := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), vf, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}})
	read, copied := false, false
	w.handler.decider.reader.cached = interceptor.NewClient(w.cache, interceptor.Funcs{
		List: func(ctx context.Context, c client.WithWatch, list client.ObjectList, opts ...client.ListOption) error {
			var o client.ListOptions
			read, copied = true, !ptr.Deref(o.ApplyOptions(opts).UnsafeDisableDeepCopy, false)
			return c.List(ctx, list, opts...)
		},
	})
	raw := podWith("vf")
	if r := w.handler.Handle(t.Context(), creating(raw, "Pod")); !r.Allowed || !read || copied {
		t.Errorf("got %+v; nodes are read: %v, copied: %v", r, read, copied)
	}
	read = false
	var pod corev1.Pod
	if err := json.Unmarshal(raw, &pod); err != nil {
		t.Fatal(err)
	}
	pod.Labels = map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}
	raw, err := json.Marshal(pod)
	if err != nil {
		t.Fatal(err)
	}
	if r := w.handler.Handle(t.Context(), creating(raw, "Pod")); r.Allowed || read {
		t.Errorf("a pod for nadra: got %+v; nodes are read: %v", r, read)
	}
}

// TestPoolsAreRead checks that the slices are listed once for all pods that draw from pools, never for
// other pods, and again for a pool that no driver publishes.
func TestPoolsAreRead(t *testing.T) {
	vf := network("shop", "vf")
	vf.Annotations = map[string]string{attachment.ResourceNameAnnotation: "example.com/vf"}
	slice := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "a"}, Spec: resourceapi.ResourceSliceSpec{
		Driver: v1alpha1.DriverName,
		Devices: []resourceapi.Device{{Name: "a", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			attachment.AttributeResourceName: {StringValue: ptr.To("example.com/vf")},
		}}},
	}}
	multus := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n"}}
	w := newWorld(t, Options{Options: admission.Options{Pools: true}}, true, nadra("shop"), network("shop", "lan"), vf, multus)
	now := time.Now()
	w.handler.decider.pools.now = func() time.Time { return now }
	ask := func(networks string) admission.Outcome {
		t.Helper()
		clear(w.decided)
		if r := w.handler.Handle(context.Background(), creating(podWith(networks), "Pod")); !r.Allowed {
			t.Fatalf("refused: %s", r.Result.Message)
		}
		for o := range w.decided {
			return o
		}
		return ""
	}
	lists := func() (n int) {
		for _, r := range w.requests {
			if r == "list slices" {
				n++
			}
		}
		return n
	}
	if got := ask("lan"); got != admission.Converted || lists() != 0 {
		t.Errorf("a pod without a pool: %s after %d lists", got, lists())
	}
	for range 5 {
		if got := ask("vf"); got != admission.OnMultus || lists() != 1 {
			t.Errorf("a pool that no driver publishes: %s after %d lists", got, lists())
		}
	}
	if err := w.api.Create(context.Background(), slice); err != nil {
		t.Fatal(err)
	}
	now = now.Add(poolsAbsentFor)
	for range 5 {
		if got := ask("vf"); got != admission.Converted || lists() != 2 {
			t.Errorf("a pool that is published: %s after %d lists", got, lists())
		}
	}
	// If the slices cannot be listed, pods are converted as before.
	now = now.Add(poolsFor)
	w.fails = func(request string) error {
		if request == "list slices" {
			return errors.New("forbidden")
		}
		return nil
	}
	if err := w.api.Delete(context.Background(), slice); err != nil {
		t.Fatal(err)
	}
	if got := ask("vf"); got != admission.Converted || lists() != 3 {
		t.Errorf("slices that cannot be read: %s after %d lists", got, lists())
	}
}

// TestOwnerUnclear checks the refusal if an object that decides the owner cannot be read, and that
// it names the object.
func TestOwnerUnclear(t *testing.T) {
	onNode := []byte(strings.Replace(string(podWith("lan")), `"spec": {`, `"spec": {"nodeName": "n1", `, 1))
	for name, c := range map[string]struct {
		pod  []byte
		want string
	}{
		"namespace": {podWith("lan"), "Namespace shop: etcd is away"},
		"node":      {onNode, "Node n1: etcd is away"},
	} {
		w := newWorld(t, Options{}, true, network("shop", "lan"))
		w.fails = func(request string) error {
			if strings.HasPrefix(request, "get") {
				return apierrors.NewServiceUnavailable("etcd is away")
			}
			return nil
		}
		r := w.handler.Handle(context.Background(), creating(c.pod, "Pod"))
		if r.Allowed || reason.In(r.Result.Message) != reason.OwnerUnclear || !strings.Contains(r.Result.Message, c.want) {
			t.Errorf("%s: got %+v after %v", name, r.Result, w.requests)
		}
	}
}

func TestStaysOnMultus(t *testing.T) {
	w := newWorld(t, Options{}, true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}})
	got := patched(t, podWith("lan"), w.handler.Handle(context.Background(), creating(podWith("lan"), "Pod")))
	if got.Spec.Affinity == nil || len(got.Spec.ResourceClaims) != 0 || len(w.requests) != 0 || w.decided[admission.OnMultus] != 1 {
		t.Errorf("got %+v after %v", got.Spec, w.requests)
	}
}

// TestNode checks that the target node of a DaemonSet's pod decides.
func TestNode(t *testing.T) {
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1", Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}}}
	w := newWorld(t, Options{}, true, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "shop"}}, network("shop", "lan"), node)
	pod := []byte(strings.Replace(string(podWith("lan")), `"spec": {`, `"spec": {"affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution":
		{"nodeSelectorTerms": [{"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]}]}}}, `, 1))
	templateOf(t, w, patched(t, pod, w.handler.Handle(context.Background(), creating(pod, "Pod"))))
}
