package cleanup

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

func usedClaim(driver string, pods ...string) resourceapi.ResourceClaim {
	c := resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{Namespace: "core", Name: "net"},
		Status: resourceapi.ResourceClaimStatus{
			Allocation: &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: driver}}}},
		},
	}
	for _, p := range pods {
		c.Status.ReservedFor = append(c.Status.ReservedFor, resourceapi.ResourceClaimConsumerReference{Resource: "pods", Name: p, UID: types.UID(p)})
	}
	return c
}

func ownedPod(name, owner string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "core", Name: name, UID: types.UID(name)}, Spec: corev1.PodSpec{NodeName: "node-1"}}
	if owner != "" {
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "StatefulSet", Name: owner, Controller: ptr.To(true)}}
	}
	return p
}

// TestPendingDELRemedy checks that nobody is told to wait for a pod that is gone already.
func TestPendingDELRemedy(t *testing.T) {
	users := inUse(useFacts{Records: []probe.Record{{Node: "node-1", Pod: "core/upf-0", What: "the DEL of network core/n3 fails", PendingDEL: true}}})
	if len(users) != 1 || !strings.HasPrefix(users[0].Remedy, "Repair what the message names") || !strings.HasSuffix(users[0].Remedy, "--exclude-node node-1") {
		t.Errorf("%+v", users)
	}
}

func TestInUse(t *testing.T) {
	owned := map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerNadra}
	annotated := &corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: map[string]string{"nadra.dev/networks": "n3"}}}
	onTheirNode := func(phase corev1.PodPhase) corev1.Pod {
		p := ownedPod("bound", "")
		p.Annotations, p.Status.Phase = annotated.Annotations, phase
		return p
	}
	many := useFacts{}
	for i := range 8 {
		name := fmt.Sprintf("upf-%d", i)
		many.Pods = append(many.Pods, ownedPod(name, "upf"))
		many.Claims = append(many.Claims, usedClaim(v1alpha1.DriverName, name))
	}
	for name, tt := range map[string]struct {
		f    useFacts
		want []string // who: how
	}{
		"unused": {useFacts{
			Claims:     []resourceapi.ResourceClaim{usedClaim("gpu", "x"), {ObjectMeta: metav1.ObjectMeta{Namespace: "core", Name: "waits"}}},
			Nodes:      []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerMultus}}}},
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "core"}}},
		}, nil},
		"pods of one owner": {many, []string{
			"StatefulSet core/upf: 8 of its pods have networks of nadra: upf-0 on node-1, upf-1 on node-1, upf-2 on node-1, upf-3 on node-1, upf-4 on node-1, 3 more",
		}},
		"a bare pod, and one that is gone": {
			useFacts{Pods: []corev1.Pod{ownedPod("bare", "")}, Claims: []resourceapi.ResourceClaim{usedClaim(v1alpha1.DriverName, "bare", "dead")}},
			[]string{"namespace core: 2 of its pods have networks of nadra: bare on node-1, dead (gone)"},
		},
		"a claim by hand": {useFacts{Claims: []resourceapi.ResourceClaim{usedClaim(v1alpha1.DriverName)}}, []string{"claim core/net: it has a device of nadra, and no pod"}},
		"labels": {useFacts{
			Nodes:      []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: owned}}},
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "core", Labels: owned}}},
		}, []string{"node node-1: it is labelled for nadra", "namespace core: it is labelled for nadra"}},
		"networks in nadra's annotation": {useFacts{
			Workloads: []workload{{"Deployment", "core", "smf", annotated}, {"Deployment", "core", "web", &corev1.PodTemplateSpec{}}},
			Pods:      []corev1.Pod{onTheirNode(corev1.PodRunning), onTheirNode(corev1.PodSucceeded), ownedPod("plain", "")},
		}, []string{
			"Deployment core/smf: it names networks in annotation nadra.dev/networks, which only nadra reads: its next pods would run without them",
			"pod core/bound: nadra attached its networks by annotation nadra.dev/networks",
		}},
		"an upgrade": {useFacts{Upgrade: "it is paused"}, []string{"an upgrade: it is paused"}},
		"records": {useFacts{Records: []probe.Record{
			{Node: "node-1", Pod: "core/upf-0", Claim: "core/net", What: "network core/n3 is Prepared"}, {Node: "node-2", What: "interface net1 …", Cleanup: true},
		}}, []string{"node node-1, pod core/upf-0, claim core/net: network core/n3 is Prepared", "node node-2: interface net1 …"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, u := range inUse(tt.f) {
				got = append(got, u.Who+": "+u.How)
				if u.Remedy == "" {
					t.Errorf("%s has no remedy", u.Who)
				}
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestNotes(t *testing.T) {
	template := func(name, class string) resourceapi.ResourceClaimTemplate {
		t := resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: "core", Name: name}}
		t.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "r", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}}
		return t
	}
	refers := func(name string) *corev1.PodTemplateSpec {
		return &corev1.PodTemplateSpec{Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{{Name: "net", ResourceClaimTemplateName: &name}}}}
	}
	got := notesOf(useFacts{
		Templates: []resourceapi.ResourceClaimTemplate{template("n3", "n3.core.nad.nadra.dev"), template("any", v1alpha1.DriverName), template("gpu", "gpu.example.com")},
		Workloads: []workload{
			{"Deployment", "core", "a", refers("n3")},
			{"Deployment", "core", "b", refers("gpu")},
			{"CronJob", "core", "c", refers("any")},
			{"Deployment", "other", "a", refers("n3")},
		},
	})
	want := []string{
		"CronJob core/c requests networks by claim any: its next pods will stay Pending",
		"Deployment core/a requests networks by claim n3: its next pods will stay Pending",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
