package upgrade

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// readObjects reads a file of manifests.
func readObjects(t *testing.T, path string) *Objects {
	t.Helper()
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	out := &Objects{}
	for reader := utilyaml.NewYAMLReader(newBuffered(text)); ; {
		document, err := reader.Read()
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		var head runtime.TypeMeta
		decode(t, document, &head)
		switch head.GroupVersionKind() {
		case kind("", "Node"):
			out.Nodes = read(t, document, out.Nodes)
		case kind("", "Pod"):
			out.Pods = read(t, document, out.Pods)
		case kind("", "Namespace"):
			out.Namespaces = read(t, document, out.Namespaces)
		case kind("apps", "ReplicaSet"):
			out.ReplicaSets = read(t, document, out.ReplicaSets)
		case kind("apps", "DaemonSet"):
			out.DaemonSets = read(t, document, out.DaemonSets)
		case kind("apps", "Deployment"):
			out.Deployments = read(t, document, out.Deployments)
		case kind("batch", "Job"):
			out.Jobs = read(t, document, out.Jobs)
		case kind("policy", "PodDisruptionBudget"):
			out.Budgets = read(t, document, out.Budgets)
		case kind("resource.k8s.io", "ResourceClaim"):
			out.Claims = read(t, document, out.Claims)
		default:
			t.Fatalf("%s: unexpected kind %v", path, head)
		}
	}
}

func newBuffered(text []byte) *bufio.Reader { return bufio.NewReader(bytes.NewReader(text)) }

func kind(group, kind string) schema.GroupVersionKind {
	return schema.GroupVersionKind{Group: group, Version: "v1", Kind: kind}
}

func decode(t *testing.T, document []byte, into any) {
	t.Helper()
	if err := yaml.Unmarshal(document, into); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
}

func read[T any](t *testing.T, document []byte, list []T) []T {
	t.Helper()
	var one T
	if err := yaml.UnmarshalStrict(document, &one); err != nil {
		t.Fatalf("%v in:\n%s", err, document)
	}
	return append(list, one)
}

// TestWhoServesPods checks that a claim for another device does not hide that nadra attached a pod without a claim, and
// that an empty list with a space names no networks.
func TestWhoServesPods(t *testing.T) {
	pod := func(name, networks string, change func(*corev1.Pod)) corev1.Pod {
		p := corev1.Pod{Spec: corev1.PodSpec{NodeName: "n"}, Status: corev1.PodStatus{Phase: corev1.PodRunning}}
		p.Name, p.Annotations = name, map[string]string{attachment.NetworksAnnotation: networks}
		if change != nil {
			change(&p)
		}
		return p
	}
	byDriver := func(p *corev1.Pod) {
		p.ManagedFields = []metav1.ManagedFieldsEntry{{
			Manager: v1alpha1.DriverName, FieldsV1: metav1.NewFieldsV1(`{"f:metadata":{"f:annotations":{"f:k8s.v1.cni.cncf.io/network-status":{}}}}`),
		}}
	}
	facts := (&Objects{Pods: []corev1.Pod{
		pod("claimless", "f1", byDriver),
		pod("empty", "[ ]", nil),
		pod("gpu", "f1", func(p *corev1.Pod) {
			byDriver(p)
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}}
		}),
		pod("multus", "f1", func(p *corev1.Pod) {
			p.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "gpu", ResourceClaimName: ptr.To("gpu")}}
		}),
		pod("renamed", "", func(p *corev1.Pod) { p.Annotations[attachment.OwnNetworksAnnotation] = "f1" }),
	}}).Facts("", nil)
	got := map[string]bool{}
	for _, p := range facts.Pods {
		got[p.Name] = p.servedByNadra()
	}
	if diff := cmp.Diff(map[string]bool{"claimless": true, "gpu": true, "multus": false, "renamed": true}, got); diff != "" {
		t.Errorf("pods that nadra serves (-want +got):\n%s", diff)
	}
}

func TestFacts(t *testing.T) {
	multus := []MultusRef{{Namespace: "kube-system", DaemonSet: "kube-multus-ds"}}
	got := readObjects(t, "testdata/cluster.yaml").Facts("topology.kubernetes.io/zone", multus)
	got.AddVerdicts([]translate.Verdict{
		{Object: translate.ObjectRef{Kind: "DaemonSet", Namespace: "ran", Name: "agent"}, Readiness: translate.Stays, Codes: []translate.Code{translate.DefaultNetwork}},
		{Object: translate.ObjectRef{Kind: "Deployment", Namespace: "core", Name: "upf"}, Readiness: translate.Ready},
		{Object: translate.ObjectRef{Kind: "CronJob", Namespace: "ran", Name: "nightly"}, Readiness: translate.Stays},
	})
	upf := Workload{"Deployment", "core", "upf"}
	want := Facts{
		Nodes: []Node{
			{Name: "worker-1", Domain: "west", Ready: true, Linux: true, Nadra: true},
			{Name: "worker-2", Domain: "east", Ready: true, Linux: true},
			{Name: "worker-3", Domain: "east"},
		},
		Pods: []Pod{
			{Namespace: "core", Name: "upf-5d-x", Node: "worker-1", Workload: upf, Nadra: true},
			{Namespace: "core", Name: "upf-5d-y", Node: "worker-2", Workload: upf},
			{Namespace: "ran", Name: "agent-q", Node: "worker-2", Workload: Workload{"DaemonSet", "ran", "agent"}, Tolerates: true, Pinned: true, OnlyDefault: true},
			{Namespace: "ran", Name: "by-hand", Node: "worker-2"},
			{Namespace: "ran", Name: "keepalived-worker-2", Node: "worker-2", Static: true},
			{Namespace: "ran", Name: "nightly-1-z", Node: "worker-2", Workload: Workload{"CronJob", "ran", "nightly"}},
		},
		Budgets: []Budget{{Namespace: "core", Name: "upf", Allowed: 1, Expected: 1, Healthy: 2, Pods: []string{"upf-5d-x", "upf-5d-y"}}},
		Stays: []Stay{
			{Workload: Workload{"DaemonSet", "ran", "agent"}, Codes: []string{string(translate.DefaultNetwork)}, Pinned: true},
			{Workload: Workload{"CronJob", "ran", "nightly"}},
		},
		Owners: map[string]string{"core": "nadra"}, DefaultOwner: "multus",
		Multus:    []Multus{{MultusRef: MultusRef{"kube-system", "kube-multus-ds"}, ManagedBy: "Argo CD"}},
		Installed: true, Labelled: true,
		Controllers: []Controller{
			{Workload: Workload{"Deployment", "nadra-system", "nadra-controller"}, Wanted: 1},
			{Workload: Workload{"DaemonSet", "kube-system", "kube-multus-ds"}, Down: 1},
			{Workload: Workload{"DaemonSet", "nadra", "nadra-node"}, Down: 1},
		},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("facts (-want +got):\n%s", diff)
	}
}
