package snapshot

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	nadfake "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/client/clientset/versioned/fake"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes/fake"
	clienttesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/desk/inspect"
	"github.com/nadra-dev/nadra/internal/desk/nodepod"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

var when = time.Date(2026, 11, 22, 13, 0, 0, 0, time.FixedZone("x", 3600))

func pod(name, node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "shop", Name: name, UID: types.UID("uid-" + name), Labels: map[string]string{"app": name},
			Annotations:     map[string]string{attachment.NetworksAnnotation: "lan", "k8s.v1.cni.cncf.io/network-status": `[{"name":"shop/lan","interface":"net1"}]`},
			OwnerReferences: []metav1.OwnerReference{{Kind: "ReplicaSet", Name: "web-5d9f", Controller: ptr.To(true)}},
		},
		Spec:   corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{Phase: corev1.PodRunning},
	}
}

func cluster(objects ...runtime.Object) (Cluster, *fake.Clientset) {
	kube := fake.NewClientset(objects...)
	return Cluster{Cluster: inspect.Cluster{Kube: kube, NADs: nadfake.NewSimpleClientset(), Namespace: "shop"}, Name: "lab"}, kube
}

func TestTake(t *testing.T) {
	set := &appsv1.ReplicaSet{ObjectMeta: metav1.ObjectMeta{
		Namespace: "shop", Name: "web-5d9f", OwnerReferences: []metav1.OwnerReference{{Kind: "Deployment", Name: "web", Controller: ptr.To(true)}},
	}}
	c, kube := cluster(pod("a", "n1"), pod("b", "n2"), set)
	c.Selector, c.Known = "app=a", []string{"shop/old"}
	got, err := c.Take(t.Context(), when)
	if err != nil {
		t.Fatal(err)
	}
	switch {
	case got.Taken != "2026-11-22T12:00:00Z" || got.Source != "cluster lab" || got.Namespace != "shop" || got.Selector != "app=a":
		t.Errorf("snapshot %+v", got)
	case len(got.Pods) != 1 || *got.Pods[0].Workload != Workload{Kind: "Deployment", Name: "web"} || got.Pods[0].Interfaces[0].By != Multus:
		t.Errorf("pods %+v", got.Pods)
	case len(got.Networks) != 2 || !got.Networks[0].Missing:
		t.Errorf("networks %+v", got.Networks)
	}
	for _, a := range kube.Actions() {
		if !slices.Contains([]string{"get", "list"}, a.GetVerb()) {
			t.Errorf("it does %s %s", a.GetVerb(), a.GetResource().Resource)
		}
	}
}

// Without the right to list ReplicaSets, the snapshot has their names.
func TestTakeWithoutRights(t *testing.T) {
	c, kube := cluster(pod("a", "n1"))
	kube.PrependReactor("list", "*", func(a clienttesting.Action) (bool, runtime.Object, error) {
		if slices.Contains([]string{"replicasets", "jobs"}, a.GetResource().Resource) {
			return true, nil, apierrors.NewForbidden(a.GetResource().GroupResource(), "", errors.New("no"))
		}
		return false, nil, nil
	})
	got, err := c.Take(t.Context(), when)
	if err != nil || *got.Pods[0].Workload != (Workload{Kind: "ReplicaSet", Name: "web-5d9f"}) {
		t.Errorf("%+v, %v", got, err)
	}
	c.Selector = "=="
	if _, err := c.Take(t.Context(), when); err == nil || !strings.Contains(err.Error(), "selector") {
		t.Errorf("the error is %v", err)
	}
}

// fromNodes returns a cluster in which n1 can be inspected, and n2 cannot.
func fromNodes(t *testing.T, objects ...runtime.Object) (Cluster, *fake.Clientset) {
	t.Helper()
	c, kube := cluster(objects...)
	var mu sync.Mutex
	on := map[string]string{} // nodes by probing pod
	kube.PrependReactor("create", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
		mu.Lock()
		defer mu.Unlock()
		p := a.(clienttesting.CreateAction).GetObject().(*corev1.Pod)
		on[p.Name], p.Status.Phase = p.Spec.NodeName, corev1.PodSucceeded
		if !slices.Contains(p.Spec.Containers[0].Args, "--pods") || p.Spec.Containers[0].SecurityContext.Capabilities.Add[0] != "SYS_ADMIN" {
			t.Errorf("container %+v", p.Spec.Containers[0])
		}
		return false, nil, nil
	})
	c.Nodes = &nodepod.Runner{Kube: kube, Namespace: "nadra", Image: "x", Timeout: time.Minute, Raw: func(_ context.Context, path string) ([]byte, error) {
		mu.Lock()
		defer mu.Unlock()
		for name, node := range on {
			if !strings.Contains(path, name) || node != "n1" {
				continue
			}
			one, err := json.Marshal(probe.NewPodReport(probe.Pod{UID: "uid-a", Links: []probe.Link{{Name: "net1", Kind: "macvlan"}}}))
			end, endErr := json.Marshal(probe.PodsReport{APIVersion: probe.APIVersion, Kind: probe.PodsKind, Count: 1})
			return slices.Concat(one, []byte("\n"), end, []byte("\n")), errors.Join(err, endErr)
		}
		return []byte("nadra-node: no such flag\n"), nil
	}}
	return c, kube
}

func TestTakeFromNodes(t *testing.T) {
	c, kube := fromNodes(t, pod("a", "n1"), pod("b", "n2"))
	got, err := c.Take(t.Context(), when)
	if err != nil {
		t.Fatal(err)
	}
	if got.Pods[0].Observed == nil || got.Pods[0].Observed.Links[0].Kind != "macvlan" || got.Pods[1].Observed != nil {
		t.Errorf("pods %+v", got.Pods)
	}
	if len(got.Nodes) != 2 || len(got.Nodes[0].Errors) != 0 || !strings.Contains(got.Nodes[1].Errors[0], "no such flag") {
		t.Errorf("nodes %+v", got.Nodes)
	}
	left, err := kube.CoreV1().Pods("nadra").List(t.Context(), metav1.ListOptions{})
	if err != nil || len(left.Items) > 0 {
		t.Errorf("%d pods are left, %v", len(left.Items), err)
	}
}

func TestTakeIsInterrupted(t *testing.T) {
	c, _ := fromNodes(t, pod("a", "n1"))
	ctx, cancel := context.WithCancel(t.Context())
	c.Progress = func(what string) {
		if strings.HasPrefix(what, "Inspecting the pods of 1 node") {
			cancel()
		}
	}
	if _, err := c.Take(ctx, when); !errors.Is(err, context.Canceled) {
		t.Errorf("the error is %v", err)
	}
}
