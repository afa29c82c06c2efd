package controller

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/controller-runtime/pkg/handler"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// cluster returns a client with objects and the indexes of the cache.
func cluster(objects ...client.Object) client.Client {
	return fake.NewClientBuilder().WithScheme(Scheme()).WithObjects(objects...).
		WithIndex(&nadv1.NetworkAttachmentDefinition{}, byClass, func(o client.Object) []string { return classesOf(o, true) }).
		WithIndex(&nadv1.NetworkAttachmentDefinition{}, byID, idOf).
		WithIndex(&corev1.Pod{}, byTemplate, podTemplates).
		Build()
}

func there(t *testing.T, c client.Client, o client.Object, namespace, name string) bool {
	t.Helper()
	err := c.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if client.IgnoreNotFound(err) != nil {
		t.Fatal(err)
	}
	return !apierrors.IsNotFound(err)
}

// TestClassesConverge checks that one reconciliation corrects classes whose NADs were created, deleted or
// changed while no controller ran.
func TestClassesConverge(t *testing.T) {
	edited := ownClass("a", "edited")
	edited.Spec.Selectors = nil
	byHand := ownClass("a", "byhand")
	byHand.Labels, byHand.Spec.Selectors = nil, nil
	c := cluster(nad("a", "new", bridge), nad("a", "edited", bridge), nad("a", "byhand", bridge), nad("a", "broken", "{"), pooled("a", "vf", "intel.com/sriov"),
		edited, byHand, ownClass("a", "gone"), ownClass("a", "broken"))
	recorder := events.NewFakeRecorder(20)
	r := &classes{Client: c, pools: true, events: recorder}
	for _, name := range []string{"new", "edited", "byhand", "gone", "broken", "vf"} {
		if _, err := r.Reconcile(t.Context(), request("", name+".a.nad.nadra.dev")); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := r.Reconcile(t.Context(), request("", poolClassName("intel.com/sriov"))); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]bool{"new": true, "edited": true, "byhand": true, "gone": false, "broken": false, "vf": true} {
		var class resourceapi.DeviceClass
		if got := there(t, c, &class, "", name+".a.nad.nadra.dev"); got != want {
			t.Errorf("class of %s: there is one: %v, want %v", name, got, want)
		}
		if name == "edited" && len(class.Spec.Selectors) != 1 {
			t.Error("the edited class was not corrected")
		}
		if name == "byhand" && (len(class.Spec.Selectors) != 0 || translate.Managed(&class)) {
			t.Error("the handwritten class was changed")
		}
	}
	if !there(t, c, &resourceapi.DeviceClass{}, "", "sriov.intel.com.pool.nadra.dev") {
		t.Error("the pool has no class")
	}
	select {
	case event := <-recorder.Events:
		if !strings.HasPrefix(event, "Warning "+reason.EventNoDeviceClass+" ") || reason.In(event) != reason.NetworkInvalid {
			t.Errorf("got event %s", event)
		}
	default:
		t.Error("there is no event about a NAD without a class")
	}
}

// TestClassesOfEqualIDs checks that the classes of two networks with the same ID select by different ones: the
// earlier network keeps its ID, and the later gets it when the earlier is deleted.
func TestClassesOfEqualIDs(t *testing.T) {
	earlier, later := nad("a", "net803294", bridge), nad("b", "n9ju", bridge)
	earlier.CreationTimestamp, later.CreationTimestamp = metav1.Unix(1, 0), metav1.Unix(2, 0)
	c := cluster(earlier, later)
	recorder := events.NewFakeRecorder(20)
	r := &classes{Client: c, events: recorder}
	selectors := func(changed *nadv1.NetworkAttachmentDefinition) []string {
		t.Helper()
		for _, key := range r.keysOf(t.Context(), changed) {
			if _, err := r.Reconcile(t.Context(), key); err != nil {
				t.Fatal(err)
			}
		}
		var out []string
		for _, name := range []string{"net803294.a.nad.nadra.dev", "n9ju.b.nad.nadra.dev"} {
			var class resourceapi.DeviceClass
			if there(t, c, &class, "", name) {
				out = append(out, class.Spec.Selectors[0].CEL.Expression)
			}
		}
		return out
	}
	ref := attachment.NetworkRef{Namespace: "b", Name: "n9ju"}
	short, long := attachment.NetworkIDOf(ref).Selector(), attachment.LongNetworkIDOf(ref).Selector()
	if diff := cmp.Diff([]string{short, long}, selectors(later)); diff != "" {
		t.Errorf("selectors (-want +got):\n%s", diff)
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning "+reason.EventNetworkIdentifierTaken+" ") || !strings.Contains(event, "a/net803294") {
		t.Errorf("event %s does not name the earlier network", event)
	}
	if err := c.Delete(t.Context(), earlier); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{short}, selectors(earlier)); diff != "" {
		t.Errorf("selectors when the earlier network is gone (-want +got):\n%s", diff)
	}
}

// annotated returns an admitted pod and the template to which it refers.
func annotated(t *testing.T, name string, created time.Time) (*corev1.Pod, *resourceapi.ResourceClaimTemplate) {
	t.Helper()
	manifest := `{"apiVersion":"v1","kind":"Pod","metadata":{"name":"p","namespace":"a","annotations":{"k8s.v1.cni.cncf.io/networks":"net"}},"spec":{"containers":[{"name":"main"}]}}`
	result, err := translate.Pod([]byte(manifest), translate.Options{Namespace: "a", Lookup: func(r attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition {
		return nad(r.Namespace, r.Name, bridge)
	}})
	if err != nil || len(result.Templates) != 1 {
		t.Fatalf("converting a pod: %v, %d templates: %v", err, len(result.Templates), result.Findings)
	}
	template := result.Templates[0]
	template.Labels = map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
	template.CreationTimestamp = metav1.NewTime(created)
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(created),
			Annotations: map[string]string{"k8s.v1.cni.cncf.io/networks": "net"},
		},
		Spec: corev1.PodSpec{
			Containers:     []corev1.Container{{Name: "main", Resources: corev1.ResourceRequirements{Claims: []corev1.ResourceClaim{{Name: "nadra"}}}}},
			ResourceClaims: []corev1.PodResourceClaim{{Name: "nadra", ResourceClaimTemplateName: &template.Name}},
		},
	}, template
}

func TestCollect(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	pod, template := annotated(t, "p", start.Add(-time.Hour))
	c := cluster(pod, template)
	now := start
	r := &collector{Client: c, pods: c, grace: 10 * time.Minute, now: func() time.Time { return now }}
	reconcile := func() time.Duration {
		t.Helper()
		result, err := r.Reconcile(t.Context(), request("a", template.Name))
		if err != nil {
			t.Fatal(err)
		}
		return result.RequeueAfter
	}
	is := func(want bool, when string) {
		t.Helper()
		if got := there(t, c, &resourceapi.ResourceClaimTemplate{}, "a", template.Name); got != want {
			t.Fatalf("%s: there is a template: %v, want %v", when, got, want)
		}
	}
	if again := reconcile(); again != 0 {
		t.Errorf("a template in use is reconciled again after %s", again)
	}
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	if again := reconcile(); again != 10*time.Minute {
		t.Errorf("an unused template is reconciled again after %s", again)
	}
	now = now.Add(9 * time.Minute)
	if again := reconcile(); again != time.Minute {
		t.Errorf("a minute before its deletion a template is reconciled again after %s", again)
	}
	// A new pod restarts the wait.
	pod.ResourceVersion = ""
	if err := c.Create(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	reconcile()
	if err := c.Delete(t.Context(), pod); err != nil {
		t.Fatal(err)
	}
	now = now.Add(time.Minute)
	reconcile()
	is(true, "a minute after its last pod")
	now = now.Add(10 * time.Minute)
	reconcile()
	is(false, "ten minutes after its last pod")
}

// TestCollectLeavesTheNew checks that a recreated template stays until its pod exists, although the old
// template of the same name was unused for long.
func TestCollectLeavesTheNew(t *testing.T) {
	start := time.Unix(1_800_000_000, 0)
	_, template := annotated(t, "p", start)
	c := cluster(template)
	r := &collector{Client: c, pods: c, grace: time.Minute, now: func() time.Time { return start }}
	r.idle = map[string]map[string]idleTemplate{template.Namespace: {template.Name: {"of the old one", start.Add(-time.Hour)}}}
	if result, err := r.Reconcile(t.Context(), request("a", template.Name)); err != nil || result.RequeueAfter != time.Minute {
		t.Errorf("it is reconciled again after %s (%v), want a minute", result.RequeueAfter, err)
	}
}

func TestCollectable(t *testing.T) {
	for _, c := range []struct {
		name   string
		change func(*resourceapi.ResourceClaimTemplate)
		want   bool
	}{
		{"as admission made it", func(*resourceapi.ResourceClaimTemplate) {}, true},
		{"without the label", func(t *resourceapi.ResourceClaimTemplate) { t.Labels = nil }, false},
		{"with a label of a user", func(t *resourceapi.ResourceClaimTemplate) { t.Labels["argocd"] = "x" }, false},
		{"applied, too", func(t *resourceapi.ResourceClaimTemplate) {
			t.Annotations = map[string]string{"kubectl.kubernetes.io/last-applied-configuration": "{}"}
		}, false},
		{"applied on the server, too", func(t *resourceapi.ResourceClaimTemplate) {
			t.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "flux", Operation: metav1.ManagedFieldsOperationApply}}
		}, false},
		{"with another name", func(t *resourceapi.ResourceClaimTemplate) { t.Name = "mine" }, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, template := annotated(t, "p", time.Time{})
			c.change(template)
			if got := translate.Collectable(template); got != c.want {
				t.Errorf("collectable is %v, want %v", got, c.want)
			}
		})
	}
}

// templateSource returns the template of each pod that names networks, and refuses others.
type templateSource struct {
	*resourceapi.ResourceClaimTemplate
}

func (s templateSource) Templates(_ context.Context, pod *corev1.Pod) (map[string]*resourceapi.ResourceClaimTemplate, string, error) {
	if len(pod.Annotations) == 0 {
		return nil, reason.NotConvertible.Text("no networks"), nil
	}
	t := s.DeepCopy()
	t.Labels, t.ResourceVersion = nil, ""
	return map[string]*resourceapi.ResourceClaimTemplate{t.Name: t}, "", nil
}

func TestMakeTemplates(t *testing.T) {
	now := time.Unix(1_800_000_000, 0)
	pod, template := annotated(t, "p", now)
	stripped, _ := annotated(t, "stripped", now)
	stripped.Annotations = nil
	running, _ := annotated(t, "running", now)
	running.Spec.NodeName = "node-1"
	c := cluster(pod, stripped, running, nad("a", "net", bridge))
	recorder := events.NewFakeRecorder(5)
	r := &templateMaker{Client: c, pods: c, live: c, source: templateSource{template}, events: recorder}
	// A refusal is an error, so that the next attempt is soon: the cache may only be late.
	reconcile := func(name string, want reason.Code) {
		t.Helper()
		if result, err := r.Reconcile(context.Background(), request("a", name)); reason.Of(err) != want || result.RequeueAfter != 0 {
			t.Fatalf("got %v, %v, want %q", result, err, want)
		}
	}
	reconcile("running", "")
	reconcile("stripped", reason.TemplateNotFound)
	if there(t, c, &resourceapi.ResourceClaimTemplate{}, "a", template.Name) {
		t.Fatal("a template was created for a pod that has no annotation, or needs none")
	}
	hasEvent(t, recorder, reason.TemplateNotFound, template.Name)
	reconcile("p", "")
	var again resourceapi.ResourceClaimTemplate
	if !there(t, c, &again, "a", template.Name) || !translate.Managed(&again) {
		t.Fatal("the template was not created")
	}
	reconcile("p", "")
	if len(recorder.Events) != 0 {
		t.Errorf("got event %s", <-recorder.Events)
	}
}

// hasEvent checks that the only event has a code and a text.
func hasEvent(t *testing.T, recorder *events.FakeRecorder, code reason.Code, text string) {
	t.Helper()
	if len(recorder.Events) != 1 {
		t.Fatalf("%d events, want one", len(recorder.Events))
	}
	if event := <-recorder.Events; !strings.HasPrefix(event, "Warning "+reason.EventTemplateMissing+" ") || reason.In(event) != code || !strings.Contains(event, text) {
		t.Errorf("got event %s", event)
	}
}

// TestTemplateNotMade checks that an error of the API server is an event on the pod, with its remedy, and
// that the attempt is repeated.
func TestTemplateNotMade(t *testing.T) {
	templates := schema.GroupResource{Group: "resource.k8s.io", Resource: "resourceclaimtemplates"}
	for text, err := range map[string]error{
		"count/resourceclaimtemplates.resource.k8s.io": apierrors.NewForbidden(templates, "x", errors.New("exceeded quota: few")),
		"service account": apierrors.NewForbidden(templates, "x", errors.New("cannot create resource")),
		"no such luck":    apierrors.NewInternalError(errors.New("no such luck")),
	} {
		pod, template := annotated(t, "p", time.Unix(1, 0))
		c, recorder := cluster(pod), events.NewFakeRecorder(5)
		failing := interceptor.NewClient(c.(client.WithWatch), interceptor.Funcs{Create: func(context.Context, client.WithWatch, client.Object, ...client.CreateOption) error { return err }})
		r := &templateMaker{Client: failing, pods: c, live: c, source: templateSource{template}, events: recorder}
		if _, err := r.Reconcile(t.Context(), request("a", "p")); reason.Of(err) != reason.TemplateNotCreated {
			t.Errorf("got %v", err)
		}
		hasEvent(t, recorder, reason.TemplateNotCreated, text)
	}
}

// TestTemplateOfLateCache checks that a template which only the cache lacks is no reason for an event,
// and that the age of a pod, by another clock, decides nothing.
func TestTemplateOfLateCache(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		pod, template := annotated(t, "p", time.Now().Add(skew))
		for _, annotations := range []map[string]string{nil, pod.Annotations} {
			pod.Annotations = annotations
			cache, recorder := cluster(pod), events.NewFakeRecorder(5)
			live := cluster(pod, template)
			failing := interceptor.NewClient(cache.(client.WithWatch), interceptor.Funcs{Create: func(ctx context.Context, _ client.WithWatch, o client.Object, _ ...client.CreateOption) error {
				return live.Create(ctx, o)
			}})
			r := &templateMaker{Client: failing, pods: cache, live: live, source: templateSource{template}, events: recorder}
			if _, err := r.Reconcile(t.Context(), request("a", "p")); err != nil || len(recorder.Events) != 0 {
				t.Errorf("created %s from now: %v, %d events", skew, err, len(recorder.Events))
			}
		}
	}
}

// TestManyMissingTemplates checks that a pod that names many templates which nothing determines costs one event at an attempt,
// that retries wait for all other pods, those of the first list among them, and that the template which its annotation
// determines is created.
func TestManyMissingTemplates(t *testing.T) {
	pod, template := annotated(t, "p", time.Unix(1, 0))
	for i := range v1alpha1.MaxPodClaims - 1 {
		pod.Spec.ResourceClaims = slices.Insert(pod.Spec.ResourceClaims, 0, corev1.PodResourceClaim{
			Name: fmt.Sprint(i), ResourceClaimTemplateName: new(fmt.Sprintf("nadra-net-%010x", i)),
		})
	}
	c, recorder := cluster(pod), events.NewFakeRecorder(v1alpha1.MaxPodClaims)
	r := &templateMaker{Client: c, pods: c, live: c, source: templateSource{template}, events: recorder}
	result, err := r.Reconcile(t.Context(), request("a", "p"))
	if reason.Of(err) != reason.TemplateNotFound || result.Priority == nil || *result.Priority >= handler.LowPriority {
		t.Errorf("got %+v, %v", result, err)
	}
	hasEvent(t, recorder, reason.TemplateNotFound, *pod.Spec.ResourceClaims[0].ResourceClaimTemplateName)
	if !there(t, c, &resourceapi.ResourceClaimTemplate{}, "a", template.Name) {
		t.Error("the template of the annotation was not created")
	}
}

// TestTemplateOfSuccessor checks that a pod does not get the template of an earlier pod of its name.
func TestTemplateOfSuccessor(t *testing.T) {
	pod, template := annotated(t, "p", time.Unix(1, 0))
	pod.UID = "earlier"
	cache := cluster(pod)
	pod.UID = "later"
	live := cluster(pod)
	r := &templateMaker{Client: live, pods: cache, live: live, source: templateSource{template}, events: events.NewFakeRecorder(5)}
	if _, err := r.Reconcile(t.Context(), request("a", "p")); err != nil || there(t, live, &resourceapi.ResourceClaimTemplate{}, "a", template.Name) {
		t.Errorf("the successor has a template (%v)", err)
	}
}

// TestCollectTrims checks that a namespace keeps a bounded number of unused templates: the latest.
func TestCollectTrims(t *testing.T) {
	_, template := annotated(t, "p", time.Unix(1, 0))
	c, now := cluster(), time.Unix(1_800_000_000, 0)
	r := &collector{Client: c, pods: c, grace: time.Hour, now: func() time.Time { return now }}
	name := func(i int) string { return fmt.Sprintf("nadra-net-%010x", i) }
	for i := range maxIdle + 50 {
		now = now.Add(time.Second)
		unused := template.DeepCopy()
		unused.Name, unused.UID = name(i), types.UID(name(i))
		if err := c.Create(t.Context(), unused); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Reconcile(t.Context(), request("a", unused.Name)); err != nil {
			t.Fatal(err)
		}
	}
	for i := range maxIdle + 50 {
		if got, want := there(t, c, &resourceapi.ResourceClaimTemplate{}, "a", name(i)), i >= 50; got != want {
			t.Errorf("template %d is there: %v, want %v", i, got, want)
		}
	}
	if len(r.idle["a"]) != maxIdle {
		t.Errorf("%d unused templates are known", len(r.idle["a"]))
	}
}

// TestCollectNeedsNoClock checks that an unused template stays as long as the grace and no
// longer, whatever the API server's clock says of its age.
func TestCollectNeedsNoClock(t *testing.T) {
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		now := time.Unix(1_800_000_000, 0)
		_, template := annotated(t, "p", now.Add(skew))
		template.CreationTimestamp = metav1.NewTime(now.Add(skew))
		c := cluster(template)
		r := &collector{Client: c, pods: c, grace: time.Minute, now: func() time.Time { return now }}
		for _, wait := range []time.Duration{time.Minute, 0} {
			result, err := r.Reconcile(t.Context(), request("a", template.Name))
			if err != nil || result.RequeueAfter != wait {
				t.Errorf("created %s from now, it is reconciled again after %s (%v), want %s", skew, result.RequeueAfter, err, wait)
			}
			now = now.Add(time.Minute)
		}
		if there(t, c, &resourceapi.ResourceClaimTemplate{}, "a", template.Name) {
			t.Errorf("created %s from now, it is still there", skew)
		}
	}
}

// TestSlimNode checks what the cache keeps of a node.
func TestSlimNode(t *testing.T) {
	node := &metav1.PartialObjectMetadata{ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "u", ResourceVersion: "7", ManagedFields: []metav1.ManagedFieldsEntry{{Manager: "kubelet"}},
		Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra, "zone": "a"}, Annotations: map[string]string{"long": "text"},
	}}
	node.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("Node"))
	var slim any
	for object, by := range slimObjects {
		if _, ok := object.(*corev1.Node); ok {
			slim, _ = by.Transform(node)
		}
	}
	want := &metav1.PartialObjectMetadata{TypeMeta: node.TypeMeta, ObjectMeta: metav1.ObjectMeta{
		Name: "n", UID: "u", ResourceVersion: "7", Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra},
	}}
	if diff := cmp.Diff(any(want), slim); diff != "" {
		t.Errorf("the slim node (-want +got):\n%s", diff)
	}
}

// TestSlimPod checks what the cache keeps of a pod.
func TestSlimPod(t *testing.T) {
	pod, template := annotated(t, "p", time.Unix(1, 0))
	slim, err := slimPod(pod)
	if err != nil {
		t.Fatal(err)
	}
	kept := slim.(*corev1.Pod)
	if got := translate.TemplatesOf(&kept.Spec); len(got) != 1 || got[0] != template.Name || !waits(kept) {
		t.Errorf("the slim pod lacks its templates: %v", got)
	}
	if cachedAttacher(kept) != attachment.OfNadra {
		t.Errorf("the slim pod is attached by %q", cachedAttacher(kept))
	}
	kept.Spec.ResourceClaims = slices.Repeat(kept.Spec.ResourceClaims[:1], v1alpha1.MaxPodClaims+1)
	if waits(kept) {
		t.Error("a pod with more claims than admission looks at waits for templates")
	}
	if kept.Annotations != nil || kept.Spec.Containers != nil {
		t.Error("the slim pod has annotations or containers")
	}
}

// TestSlimPodOfManyClaims checks that the cache keeps, and its index has, a bounded number of the templates that a pod
// names, and that the pod does not wait for them.
func TestSlimPodOfManyClaims(t *testing.T) {
	pod, _ := annotated(t, "p", time.Unix(1, 0))
	for _, annotations := range []map[string]string{nil, pod.Annotations} {
		many := pod.DeepCopy()
		many.Annotations = annotations
		many.Spec.ResourceClaims = slices.Repeat(many.Spec.ResourceClaims, 45_000)
		slim, err := slimPod(many)
		if err != nil {
			t.Fatal(err)
		}
		kept := slim.(*corev1.Pod)
		if n := max(len(kept.Spec.ResourceClaims), len(podTemplates(kept)), len(templateKeys(t.Context(), kept))); n > v1alpha1.MaxPodClaims+1 || waits(kept) {
			t.Errorf("the cache keeps %d templates of a pod with the annotations %v, waits is %v", n, annotations, waits(kept))
		}
	}
}
