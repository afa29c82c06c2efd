package cleanup

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"

	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// world returns a cluster with two nodes and an IPPool. A node without an answer fails.
func world(t *testing.T, answers map[string]probe.OrphanReport) (Cleaner, *fake.Clientset) {
	t.Helper()
	kube := fake.NewSimpleClientset(
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-1"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "node-2"}},
		&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "edge"}, Status: corev1.NodeStatus{NodeInfo: corev1.NodeSystemInfo{OperatingSystem: "windows"}}},
	)
	var mu sync.Mutex // guards nodes
	nodes := map[string]string{}
	kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		p.Status.Phase = corev1.PodSucceeded
		mu.Lock()
		defer mu.Unlock()
		nodes[p.Name] = p.Spec.NodeName
		return false, nil, nil
	})
	pool := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": whereabouts.String(), "kind": "IPPool", "metadata": map[string]any{"namespace": "kube-system", "name": "pool"},
		"spec": map[string]any{"range": "10.0.0.0/24", "allocations": map[string]any{
			"1": map[string]any{"id": "gone", "podref": "a/gone"}, "2": map[string]any{"id": "runs", "podref": "a/forced"},
		}},
	}}
	nads := nadfake.NewSimpleClientset()
	_, err := nads.K8sCniCncfIoV1().NetworkAttachmentDefinitions("a").Create(t.Context(), &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "blue"},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: `{"cniVersion":"1.0.0","type":"macvlan","ipam":{"type":"host-local","dataDir":"/data","subnet":"10.0.0.0/24"}}`},
	}, metav1.CreateOptions{})
	if err != nil {
		t.Fatal(err)
	}
	c := Cleaner{
		Kube: kube,
		NADs: nads,
		Dynamic: dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{
			whereabouts.WithResource("ippools"): "IPPoolList", whereabouts.WithResource("overlappingrangeipreservations"): "OverlappingRangeIPReservationList",
		}, pool),
		OlderThan: time.Minute,
	}
	c.Pods = &nodepod.Runner{Kube: kube, Namespace: "nadra", Image: "nadra-node:dev", Timeout: time.Minute, Raw: func(_ context.Context, path string) ([]byte, error) {
		pod := strings.Split(path, "/")[6]
		mu.Lock()
		defer mu.Unlock()
		answer, known := answers[nodes[pod]]
		if !known {
			return nil, errors.New("no log")
		}
		return json.Marshal(answer)
	}}
	return c, kube
}

func both() map[string]probe.OrphanReport {
	lease := probe.Orphan{Kind: probe.OrphanHostLocal, Object: "/l/10.0.0.5", Pod: "b/x", Action: probe.ActionRelease}
	return map[string]probe.OrphanReport{"node-1": {Sandboxes: []string{"runs"}}, "node-2": {Orphans: []probe.Orphan{lease}, Kept: 2}}
}

// actions returns the actions by node and object.
func actions(r Report) map[string]probe.Action {
	out := map[string]probe.Action{}
	for _, o := range r.Orphans {
		out[o.Node+" "+o.Object] = o.Action
	}
	return out
}

// TestTemplatesOfOthers checks that the workloads are read only for templates that admission created.
func TestTemplatesOfOthers(t *testing.T) {
	for label, reads := range map[string]bool{"helm": false, v1alpha1.Controller: true} {
		c, kube := world(t, nil)
		kube.PrependReactor("list", "deployments", func(a clienttesting.Action) (bool, runtime.Object, error) {
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no"))
		})
		template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: "t", Labels: map[string]string{v1alpha1.ManagedByLabel: label}}}
		if _, err := kube.ResourceV1().ResourceClaimTemplates("a").Create(t.Context(), template, metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		if f, err := c.objects(t.Context()); apierrors.IsForbidden(err) != reads || len(f.Templates) > 0 != reads {
			t.Errorf("with a template of %s: %d templates, %v", label, len(f.Templates), err)
		}
	}
}

func TestFind(t *testing.T) {
	const one, lease = " kube-system/pool#1", "node-2 /l/10.0.0.5"
	silent := both()
	delete(silent, "node-1")
	for name, tt := range map[string]struct {
		answers map[string]probe.OrphanReport
		change  func(*Cleaner)
		want    map[string]probe.Action
		refused int
	}{
		"all nodes answer": {both(), func(*Cleaner) {}, map[string]probe.Action{one: probe.ActionRelease, lease: probe.ActionRelease}, 0},
		// The running sandbox may be on the node that does not answer.
		"a node does not":       {silent, func(*Cleaner) {}, map[string]probe.Action{one: probe.ActionNone, " kube-system/pool#2": probe.ActionNone, lease: probe.ActionRelease}, 1},
		"only one is inspected": {both(), func(c *Cleaner) { c.Only = []string{"node-1"} }, map[string]probe.Action{one: probe.ActionNone}, 0},
		"none is":               {both(), func(c *Cleaner) { c.Pods = nil }, map[string]probe.Action{one: probe.ActionNone, " kube-system/pool#2": probe.ActionNone}, 0},
		"of one namespace":      {both(), func(c *Cleaner) { c.Namespace = "b" }, map[string]probe.Action{lease: probe.ActionRelease}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			c, kube := world(t, tt.answers)
			tt.change(&c)
			r, err := c.Find(t.Context())
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, actions(r)); diff != "" || len(r.Refused) != tt.refused {
				t.Errorf("refused %v\n%s", r.Refused, diff)
			}
			left, err := kube.CoreV1().Pods("").List(t.Context(), metav1.ListOptions{})
			if err != nil || len(left.Items) > 0 {
				t.Errorf("%d pods are left, %v", len(left.Items), err)
			}
		})
	}
}

// What could not be judged on nodes is a finding of its node.
func TestFindings(t *testing.T) {
	answers := both()
	answers["node-1"] = probe.OrphanReport{Refused: "the runtime does not answer"}
	answers["node-2"] = probe.OrphanReport{Errors: []string{"reading /l: permission denied"}}
	c, _ := world(t, answers)
	r, err := c.Find(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, f := range r.Findings {
		got = append(got, string(f.Code)+" "+string(f.Severity)+" "+f.Statement())
	}
	want := []string{"NADRA-510 blocker Node node-1: the runtime does not answer", "NADRA-511 warning Node node-2: reading /l: permission denied"}
	if diff := cmp.Diff(want, got); diff != "" || len(r.Refused) != 1 || len(r.Errors) != 1 {
		t.Errorf("refused %v, errors %v\n%s", r.Refused, r.Errors, diff)
	}
}

// Only pods that free orphans have the rights to. With a namespace, no pod does.
func TestPodsOnNodes(t *testing.T) {
	for name, tt := range map[string]struct {
		namespace string
		run       func(Cleaner, context.Context) (Report, error)
		apply     bool
	}{
		"finding": {"", Cleaner.Find, false}, "freeing": {"", Cleaner.Free, true}, "freeing of one namespace": {"b", Cleaner.Free, false},
	} {
		t.Run(name, func(t *testing.T) {
			c, kube := world(t, both())
			c.Namespace = tt.namespace
			var mu sync.Mutex
			var made []*corev1.Pod
			kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				mu.Lock()
				defer mu.Unlock()
				made = append(made, a.(clienttesting.CreateAction).GetObject().(*corev1.Pod).DeepCopy())
				return false, nil, nil
			})
			if _, err := tt.run(c, t.Context()); err != nil {
				t.Fatal(err)
			}
			if len(made) != 2 {
				t.Fatalf("%d pods", len(made))
			}
			for _, p := range made {
				container := p.Spec.Containers[0]
				rights := container.SecurityContext.Capabilities.Add
				if applies := slices.Contains(container.Args, "--apply"); applies != tt.apply || slices.Contains(rights, "SYS_CHROOT") != tt.apply || container.VolumeMounts[0].ReadOnly == tt.apply {
					t.Errorf("pod %v, with %v", container.Args, rights)
				}
				if !slices.Contains(container.Args, "--network-dirs=/data/blue") {
					t.Errorf("it does not know the networks: %v", container.Args)
				}
			}
		})
	}
}
