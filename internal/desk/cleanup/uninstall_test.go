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
	rbacv1 "k8s.io/api/rbac/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/kubernetes/scheme"
	clienttesting "k8s.io/client-go/testing"
	"sigs.k8s.io/controller-runtime/pkg/client"
	clientfake "sigs.k8s.io/controller-runtime/pkg/client/fake"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/desk/upgrade"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// nadraWorld returns a cluster with nadra on one node, and the messages of its Uninstaller.
func nadraWorld(t *testing.T, answer probe.Remains, more ...runtime.Object) (*Uninstaller, *[]string) {
	t.Helper()
	objects := append([]runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "nadra"}},
		&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "default"}},
		&corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: map[string]string{"nadra.dev/rack": "1", "zone": "a"}},
			Spec:       corev1.NodeSpec{Taints: []corev1.Taint{{Key: "nadra.dev/moving", Effect: corev1.TaintEffectNoSchedule}, {Key: "other", Effect: corev1.TaintEffectNoSchedule}}},
		},
	}, more...)
	kube := fake.NewSimpleClientset(objects...)
	kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).Status.Phase = corev1.PodSucceeded
		return false, nil, nil
	})
	ours := metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node", Labels: map[string]string{"app.kubernetes.io/part-of": "nadra"}}
	var progress []string
	u := &Uninstaller{
		Kube: kube, Client: clientfake.NewClientBuilder().WithScheme(scheme.Scheme).WithRuntimeObjects(objects...).Build(),
		Where:   Namespaces{Driver: "nadra", Controller: "nadra-system"},
		Timeout: time.Second, Poll: time.Millisecond,
		Say: func(format string, args ...any) { progress = append(progress, fmt.Sprintf(format, args...)) },
	}
	for _, o := range []client.Object{&appsv1.DaemonSet{ObjectMeta: ours}, &corev1.ServiceAccount{ObjectMeta: ours}} {
		if err := u.Client.Create(t.Context(), o); err != nil && !apierrors.IsAlreadyExists(err) {
			t.Fatal(err)
		}
	}
	u.Pods = &nodepod.Runner{Kube: kube, Namespace: "nadra", Image: "nadra-node:dev", Timeout: time.Minute, Raw: func(context.Context, string) ([]byte, error) {
		return json.Marshal(answer)
	}}
	return u, &progress
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
	if _, err := u.Check(t.Context()); reason.Of(err) != reason.InstalledByHelm || !strings.Contains(err.Error(), "helm uninstall net -n infra") || !strings.Contains(err.Error(), "--image registry/nadra-node:v1") {
		t.Errorf("by Helm: %v", err)
	}
	for _, old := range []runtime.Object{
		&appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra", Name: "nadra-node"}},
		&appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: "nadra-controller"}},
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nadra-node"}},
	} {
		u, _ = nadraWorld(t, probe.Remains{}, old)
		if _, err := u.Check(t.Context()); err == nil || !strings.Contains(err.Error(), "app.kubernetes.io/part-of=nadra") {
			t.Errorf("%T of an earlier version: %v", old, err)
		}
	}
	u, _ = nadraWorld(t, record)
	var inUse *InUseError
	if _, err := u.Check(t.Context()); !errors.As(err, &inUse) || reason.Of(err) != reason.NadraInUse || inUse.Users[0].Code != codeAttached || inUse.Users[0].Object.Name != "node-1" {
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

// TestCheckOfAnUpgrade checks that the original settings of Multus' DaemonSet are kept while the cluster has it.
func TestCheckOfAnUpgrade(t *testing.T) {
	multus := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "kube-system", Name: "multus"}}
	changed := map[string]upgrade.MultusState{"kube-system/multus": {}}
	for name, tt := range map[string]struct {
		phase   upgrade.Phase
		multus  map[string]upgrade.MultusState
		objects []runtime.Object
		users   int
	}{
		"paused":                            {upgrade.Paused, nil, nil, 1},
		"done, and Multus is there":         {upgrade.Done, changed, []runtime.Object{multus}, 1},
		"done, and Multus was removed":      {upgrade.Done, changed, nil, 0},
		"done, and Multus was not changed":  {upgrade.Done, nil, []runtime.Object{multus}, 0},
		"rolled back, and Multus was gone":  {upgrade.RolledBack, changed, nil, 0},
		"rolled back, and Multus was there": {upgrade.RolledBack, nil, []runtime.Object{multus}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			u, _ := nadraWorld(t, probe.Remains{}, tt.objects...)
			state := upgrade.NewState()
			state.Phase, state.Multus = tt.phase, tt.multus
			plan := &upgrade.Plan{APIVersion: upgrade.APIVersion, Kind: upgrade.PlanKind, Waves: []upgrade.Wave{{Name: "w", Nodes: []upgrade.NodeShare{{Name: "node-1"}}}}}
			if err := (upgrade.Store{Kube: u.Kube, Namespace: "nadra-system"}).Save(t.Context(), plan, state); err != nil {
				t.Fatal(err)
			}
			_, err := u.Check(t.Context())
			inUse := &InUseError{}
			if errors.As(err, &inUse); len(inUse.Users) != tt.users || (err != nil) != (tt.users > 0) {
				t.Errorf("error %v, users %+v, want %d", err, inUse.Users, tt.users)
			}
		})
	}
}

// there reports whether the cluster still has an object.
func there(t *testing.T, u *Uninstaller, o client.Object, namespace, name string) bool {
	t.Helper()
	err := u.Client.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: name}, o)
	if err != nil && !apierrors.IsNotFound(err) {
		t.Fatal(err)
	}
	return err == nil
}

// TestDeletesWhatTheManifestsInstall checks that nothing of any manifest stays, and that objects of others do.
func TestDeletesWhatTheManifestsInstall(t *testing.T) {
	for _, overlay := range []string{"beside-multus", "driver-only", "drop-in", "drop-in/uninstall", "../build/release/overlays/drop-in-cert-manager", "../build/release/overlays/openshift"} {
		t.Run(overlay, func(t *testing.T) {
			built, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), "../../../manifests/"+overlay)
			if err != nil {
				t.Fatal(err)
			}
			u, progress := nadraWorld(t, probe.Remains{})
			label := map[string]string{partOf: nadra}
			theirs := []client.Object{
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: "monitoring", Name: "nadra-node", Labels: label}},
				&corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceSystem, Name: "dashboards", Labels: label}},
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "view-nadra", Labels: label}},
				&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "nadra-viewer"}},
			}
			u.Client = clientfake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(theirs...).Build()
			ofChart := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: "pools", Name: "nadra-node-sriov", Labels: label}}
			if err := u.Client.Create(t.Context(), ofChart.DeepCopy()); err != nil {
				t.Fatal(err)
			}
			var installed []*unstructured.Unstructured
			for _, r := range built.Resources() {
				o := &unstructured.Unstructured{}
				text, err := r.MarshalJSON()
				if err == nil {
					err = o.UnmarshalJSON(text)
				}
				if err == nil {
					err = u.Client.Create(t.Context(), o.DeepCopy())
				}
				if err != nil {
					t.Fatal(err)
				}
				installed = append(installed, o)
			}
			if err := u.Run(t.Context()); err != nil {
				t.Fatalf("%v after %q", err, *progress)
			}
			for _, o := range installed {
				if there(t, u, o.DeepCopy(), o.GetNamespace(), o.GetName()) {
					t.Errorf("%s %s/%s is still there", o.GetKind(), o.GetNamespace(), o.GetName())
				}
			}
			if there(t, u, ofChart, ofChart.Namespace, ofChart.Name) {
				t.Error("the driver's rights in a namespace with pools are still there")
			}
			for _, o := range theirs {
				if !there(t, u, o.DeepCopyObject().(client.Object), o.GetNamespace(), o.GetName()) {
					t.Errorf("%T %s/%s, which no manifest has, is gone", o, o.GetNamespace(), o.GetName())
				}
			}
		})
	}
}

// If a node still has a record, Run keeps what the next run needs.
func TestStopsAtRecords(t *testing.T) {
	u, _ := nadraWorld(t, probe.Remains{Records: []probe.Record{{Pod: "core/upf-0", What: "network core/n3 is Attached"}}})
	var inUse *InUseError
	if err := u.Run(t.Context()); !errors.As(err, &inUse) {
		t.Fatal(err)
	}
	if !there(t, u, &corev1.ServiceAccount{}, "nadra", driver) || !there(t, u, &corev1.Namespace{}, "", "nadra") {
		t.Error("the driver's account or its namespace is gone")
	}
	note, err := u.Noted(t.Context())
	if err != nil || note.Image != "nadra-node:dev" {
		t.Errorf("note %+v, %v", note, err)
	}
}

// A claim is allocated until the last class is gone. Run, which looks again then, keeps the driver for it.
func TestStopsAtALateClaim(t *testing.T) {
	u, _ := nadraWorld(t, probe.Remains{})
	label := map[string]string{partOf: nadra}
	class := &resourceapi.DeviceClass{ObjectMeta: metav1.ObjectMeta{Name: "net.nadra.dev", Labels: label}}
	if err := u.Client.Create(t.Context(), class); err != nil {
		t.Fatal(err)
	}
	late := usedClaim(v1alpha1.DriverName, "late")
	u.Client = interceptor.NewClient(u.Client.(client.WithWatch), interceptor.Funcs{
		Delete: func(ctx context.Context, c client.WithWatch, o client.Object, options ...client.DeleteOption) error {
			if o.GetName() == class.Name {
				if _, err := u.Kube.ResourceV1().ResourceClaims(late.Namespace).Create(ctx, &late, metav1.CreateOptions{}); err != nil {
					return err
				}
			}
			return c.Delete(ctx, o, options...)
		},
	})
	var inUse *InUseError
	if err := u.Run(t.Context()); !errors.As(err, &inUse) {
		t.Fatal(err)
	}
	if there(t, u, class, "", class.Name) {
		t.Error("the class is still there, so more claims can be allocated")
	}
	if !there(t, u, &appsv1.DaemonSet{}, "nadra", driver) {
		t.Error("the driver is gone, which must release the claim's devices")
	}
}

func TestMarks(t *testing.T) {
	u, _ := nadraWorld(t, probe.Remains{}, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{
		Name: "core", Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerMultus, "team": "x"},
	}})
	if err := u.removeMarks(t.Context()); err != nil {
		t.Fatal(err)
	}
	var node corev1.Node
	var ns corev1.Namespace
	if !there(t, u, &node, "", "node-1") || !there(t, u, &ns, "", "core") {
		t.Fatal("the node or the namespace is gone")
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
		if err := u.Run(t.Context()); err != nil {
			t.Fatalf("%s: %v", how, err)
		}
		if !there(t, u, &appsv1.DaemonSet{}, "nadra", driver) || !there(t, u, &corev1.Namespace{}, "", "nadra") {
			t.Errorf("%s: the driver or its namespace is gone", how)
		}
		for _, want := range []string{"DaemonSet nadra/nadra-node would be deleted", "Namespace nadra would be deleted"} {
			if !slices.Contains(*progress, want) {
				t.Errorf("%s: it does not say %q: %q", how, want, *progress)
			}
		}
		if how == "client" && slices.Contains(*progress, "Namespace nadra-system would be deleted") { // the fake server does not look
			t.Errorf("%s: a namespace that does not exist would be deleted", how)
		}
		var node corev1.Node
		if !there(t, u, &node, "", "node-1") || node.Labels["nadra.dev/rack"] == "" {
			t.Errorf("%s: the node has changed: %v", how, node.Labels)
		}
		if note, err := u.Noted(t.Context()); err != nil || note.Image != "" {
			t.Errorf("%s: a note was saved: %v %v", how, note, err)
		}
	}
}

// TestNodeThatFailsHalfway removes files of a node that reports some, and an error: only the error is said.
func TestNodeThatFailsHalfway(t *testing.T) {
	u, progress := nadraWorld(t, probe.Remains{Paths: []string{"/var/lib/nadra"}, Error: "removing /var/lib/nadra: the disk is read-only"})
	if err := u.cleanNodes(t.Context()); err == nil || len(*progress) > 0 {
		t.Errorf("error %v, progress %q", err, *progress)
	}
}

// TestReadingStopsAtTheFirstError checks that no further kind is listed after one that may not be.
func TestReadingStopsAtTheFirstError(t *testing.T) {
	u, _ := nadraWorld(t, probe.Remains{})
	client := u.Kube.(*fake.Clientset)
	for _, kind := range []string{"resourceclaims", "resourceclaimtemplates", "pods", "nodes", "namespaces", "deployments"} {
		refused := false
		client.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
			if refused {
				t.Errorf("%s are listed after %s were refused", a.GetResource().Resource, kind)
			}
			refused = a.GetResource().Resource == kind
			return refused, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no"))
		})
		if _, err := u.facts(t.Context()); !apierrors.IsForbidden(err) {
			t.Errorf("without %s: %v", kind, err)
		}
		client.ReactionChain = client.ReactionChain[1:]
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
		if err := u.deleteNamespaces(t.Context()); err != nil {
			t.Fatal(err)
		}
		if kept := there(t, u, &corev1.Namespace{}, "", "nadra"); kept != tt.kept {
			t.Errorf("with pod %s: the namespace is kept: %t, progress %q", tt.pod.Name, kept, *progress)
		}
	}
}
