package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// nadraWorld returns a cluster with nadra on one node, and the messages of its Uninstaller.
func nadraWorld(t *testing.T, answer probe.Remains, more ...runtime.Object) (*Uninstaller, *[]string) {
	t.Helper()
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nadra"}}
	kube := fake.NewSimpleClientset(append([]runtime.Object{
		ns, &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "default"}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"nadra.dev/rack": "1", "zone": "a"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "nadra.dev/moving", Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}},
		},
	}, more...)...)
	kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Status.Phase = corev1.PodSucceeded
		return false, nil, nil
	})
	var progress []string
	u := &Uninstaller{
		Kube: kube, Client: clientfake.NewClientBuilder().WithScheme(scheme.Scheme).Build(),
		Dynamic: dynamicfake.NewSimpleDynamicClient(scheme.Scheme,
			installed("v1", "Namespace", "", "nadra"), installed("apps/v1", "DaemonSet", "nadra", "nadra-node"), installed("v1", "ServiceAccount", "nadra", "nadra-node")),
		Where:   Namespaces{Driver: "nadra", Controller: "nadra-system"},
		Timeout: time.Second, Poll: time.Millisecond,
		Say: func(format string, args ...any) { progress = append(progress, fmt.Sprintf(format, args...)) },
	}
	u.Pods = &nodepod.Runner{Kube: kube, Namespace: "nadra", Image: "nadra-node:dev", Timeout: time.Minute, Raw: func(context.Context, string) ([]byte, error) {
		return json.Marshal(answer)
	}}
	return u, &progress
}

func installed(apiVersion, kind, namespace, name string) *unstructured.Unstructured {
	o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": apiVersion, "kind": kind}}
	o.SetNamespace(namespace)
	o.SetName(name)
	return o
}

func TestCheck(t *testing.T) {
	helm := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node", Annotations: map[string]string{
		"meta.helm.sh/release-name": "net", "meta.helm.sh/release-namespace": "infra",
	}}}
	helm.Spec.Template.Spec.Containers = []corev1.Container{{Name: "nadra-node", Image: "registry/nadra-node:v1"}}
	record := probe.Remains{Records: []probe.Record{{Pod: "core/upf-0", What: "network core/n3 is Attached"}}}

	u, _ := nadraWorld(t, probe.Remains{})
	if notes, err := u.Check(t.Context()); err != nil || len(notes) > 0 {
		t.Errorf("unused: %v, %v", notes, err)
	}
	u, _ = nadraWorld(t, probe.Remains{}, helm)
	var byHelm *HelmError
	if _, err := u.Check(t.Context()); !errors.As(err, &byHelm) || reason.Of(err) != reason.InstalledByHelm || !strings.Contains(err.Error(), "helm uninstall net -n infra") || !strings.Contains(err.Error(), "--image registry/nadra-node:v1") {
		t.Errorf("by Helm: %v", err)
	}
	u, _ = nadraWorld(t, record)
	var inUse *InUseError
	if _, err := u.Check(t.Context()); !errors.As(err, &inUse) || reason.Of(err) != reason.NadraInUse || inUse.Users[0].Who != "node node-1, pod core/upf-0" {
		t.Errorf("with a record: %v", err)
	}
	u, _ = nadraWorld(t, probe.Remains{Error: "the disk is broken"})
	if _, err := u.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "node node-1: the disk is broken") {
		t.Errorf("a node that cannot be inspected: %v", err)
	}
	u.Exclude = []string{"node-1"}
	if _, err := u.Check(t.Context()); err != nil {
		t.Errorf("an excluded node: %v", err)
	}
}

// there reports whether the cluster still has an object.
func there(t *testing.T, u *Uninstaller, o object) bool {
	t.Helper()
	_, err := u.Dynamic.Resource(o.Resource).Namespace(o.Namespace).Get(t.Context(), o.Name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// If a node still has a record, Run keeps what the next run needs.
func TestStopsAtRecords(t *testing.T) {
	u, _ := nadraWorld(t, probe.Remains{Records: []probe.Record{{Pod: "core/upf-0", What: "network core/n3 is Attached"}}})
	var inUse *InUseError
	if err := u.Run(t.Context()); !errors.As(err, &inUse) {
		t.Fatal(err)
	}
	account := slices.IndexFunc(u.Where.rights(), func(o object) bool { return o.Kind == "ServiceAccount" && o.Name == driver })
	for _, o := range []object{u.Where.rights()[account], u.Where.last()[1]} {
		if !there(t, u, o) {
			t.Errorf("%s is gone", o)
		}
	}
	note, err := u.Noted(t.Context())
	if err != nil || note.Image != "nadra-node:dev" {
		t.Errorf("note %+v, %v", note, err)
	}
}

func TestMarks(t *testing.T) {
	u, _ := nadraWorld(t, probe.Remains{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "core", Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerMultus, "team": "x"},
	}})
	if err := u.removeMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	node, err := u.Kube.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	ns, err := u.Kube.CoreV1().Namespaces().Get(t.Context(), "core", metav1.GetOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if len(node.Labels) != 1 || node.Labels["zone"] != "a" || len(node.Spec.Taints) != 1 || node.Spec.Taints[0].Key != "other" || len(ns.Labels) != 1 || ns.Labels["team"] != "x" {
		t.Errorf("labels %v and %v, taints %v", node.Labels, ns.Labels, node.Spec.Taints)
	}
}

// A dry run changes nothing, and reports each object once.
func TestDryRun(t *testing.T) {
	for _, how := range []string{"client", "server"} {
		u, progress := nadraWorld(t, probe.Remains{Paths: []string{"/var/lib/nadra"}})
		u.DryRun = kube.DryRun(how)
		if how == "server" { // which the fake does not support
			u.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("delete", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return slices.Contains(a.(clienttesting.DeleteActionImpl).DeleteOptions.DryRun, metav1.DryRunAll), nil, nil
			})
			u.Kube.(*fake.Clientset).PrependReactor("patch", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
				return slices.Contains(a.(clienttesting.PatchActionImpl).PatchOptions.DryRun, metav1.DryRunAll), &corev1.Node{}, nil
			})
		}
		if err := u.Run(t.Context()); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		for _, o := range []object{u.Where.driverObjects()[1], u.Where.last()[1]} {
			if !there(t, u, o) || !slices.Contains(*progress, o.String()+" would be deleted") {
				t.Errorf("%s: %s: %v", how, o, *progress)
			}
		}
		node, err := u.Kube.CoreV1().Nodes().Get(t.Context(), "node-1", metav1.GetOptions{})
		if err != nil || node.Labels["nadra.dev/rack"] == "" {
			t.Errorf("%s: the node has changed: %v", how, err)
		}
		if note, err := u.Noted(t.Context()); err != nil || note.Image != "" {
			t.Errorf("%s: a note was saved: %v %v", how, note, err)
		}
	}
}

// Abandoned pods of kubectl-nadra do not keep the namespace, other pods do.
func TestNamespaces(t *testing.T) {
	leftBehind := (nodepod.Runner{Namespace: "nadra"}).Pod("node-1", nil)
	leftBehind.Status.Phase = corev1.PodSucceeded
	web := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "web"}}
	for _, tt := range []struct {
		pod  *corev1.Pod
		kept bool
	}{{leftBehind, false}, {web, true}} {
		u, progress := nadraWorld(t, probe.Remains{}, tt.pod)
		u.Dynamic.(*dynamicfake.FakeDynamicClient).PrependReactor("delete", "namespaces", func(clienttesting.Action) (bool, runtime.Object, error) {
			return false, nil, u.Kube.CoreV1().Namespaces().Delete(t.Context(), "nadra", metav1.DeleteOptions{})
		})
		if err := u.deleteNamespaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept := there(t, u, u.Where.last()[1]); kept != tt.kept {
			t.Errorf("with pod %s: the namespace is kept: %t, progress %q", tt.pod.Name, kept, *progress)
		}
	}
}
