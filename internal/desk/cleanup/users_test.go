package cleanup

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
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

// TestRecords checks that each record has the code whose remedy helps: nobody is told to wait for a pod that is gone.
func TestRecords(t *testing.T) {
	for code, record := range map[translate.Code]probe.Record{
		codeAttached: {}, codePendingDEL: {PendingDEL: true}, codeLeftOver: {PendingDEL: true, Cleanup: true},
	} {
		record.Node, record.Pod, record.What = "node-1", "core/upf-0", "the DEL of network core/n3 fails"
		if users := inUse(facts{Records: []probe.Record{record}}); len(users) != 1 || users[0].Code != code || users[0].Fix == "" {
			t.Errorf("%+v: %+v", record, users)
		}
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
	many := facts{}
	for i := range 8 {
		name := fmt.Sprintf("upf-%d", i)
		many.Pods = append(many.Pods, ownedPod(name, "upf"))
		many.Claims = append(many.Claims, usedClaim(v1alpha1.DriverName, name))
	}
	for name, tt := range map[string]struct {
		f    facts
		want []string // code, object: message
	}{
		"unused": {facts{
			Claims:     []resourceapi.ResourceClaim{usedClaim("gpu", "x"), {ObjectMeta: metav1.ObjectMeta{Namespace: "core", Name: "waits"}}},
			Nodes:      []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "n", Labels: map[string]string{v1alpha1.OwnerLabel: v1alpha1.OwnerMultus}}}},
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "core"}}},
		}, nil},
		"pods of one owner": {many, []string{
			"NADRA-501 StatefulSet core/upf: 8 of its pods have networks of nadra: upf-0 on node-1, upf-1 on node-1, upf-2 on node-1, upf-3 on node-1, upf-4 on node-1, 3 more",
		}},
		"a bare pod, and one that is gone": {
			facts{Pods: []corev1.Pod{ownedPod("bare", "")}, Claims: []resourceapi.ResourceClaim{usedClaim(v1alpha1.DriverName, "bare", "dead")}},
			[]string{"NADRA-501 Namespace core: 2 of its pods have networks of nadra: bare on node-1, dead (gone)"},
		},
		"a claim by hand": {facts{Claims: []resourceapi.ResourceClaim{usedClaim(v1alpha1.DriverName)}}, []string{"NADRA-502 ResourceClaim core/net: it has a device of nadra, and no pod"}},
		"labels": {facts{
			Nodes:      []corev1.Node{{ObjectMeta: metav1.ObjectMeta{Name: "node-1", Labels: owned}}},
			Namespaces: []corev1.Namespace{{ObjectMeta: metav1.ObjectMeta{Name: "core", Labels: owned}}},
		}, []string{"NADRA-503 Node node-1: it is labelled for nadra", "NADRA-503 Namespace core: it is labelled for nadra"}},
		"networks in nadra's annotation": {facts{
			Workloads: []workload{{"Deployment", "core", "smf", annotated, false}, {"Deployment", "core", "web", &corev1.PodTemplateSpec{}, false}},
			Pods:      []corev1.Pod{onTheirNode(corev1.PodRunning), onTheirNode(corev1.PodSucceeded), ownedPod("plain", "")},
		}, []string{
			"NADRA-504 Deployment core/smf: it names networks in annotation nadra.dev/networks",
			"NADRA-504 Pod core/bound: nadra attached its networks by annotation nadra.dev/networks",
		}},
		"an upgrade": {facts{Upgrade: "it is paused"}, []string{"NADRA-505 an upgrade: it is paused"}},
		"records": {facts{Records: []probe.Record{
			{Node: "node-1", Pod: "core/upf-0", Claim: "core/net", What: "network core/n3 is Prepared"}, {Node: "node-2", What: "interface net1 …", Cleanup: true},
		}}, []string{"NADRA-506 Node node-1: pod core/upf-0: claim core/net: network core/n3 is Prepared", "NADRA-508 Node node-2: interface net1 …"}},
	} {
		t.Run(name, func(t *testing.T) {
			var got []string
			for _, u := range inUse(tt.f) {
				got = append(got, string(u.Code)+" "+u.Statement())
				if u.Severity != translate.Blocker || u.Fix == "" {
					t.Errorf("%+v", u)
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
	var got []string
	for _, f := range notesOf(facts{
		Templates: []resourceapi.ResourceClaimTemplate{template("n3", "n3.core.nad.nadra.dev"), template("any", v1alpha1.DriverName), template("gpu", "gpu.example.com")},
		Workloads: []workload{
			{"Deployment", "core", "a", refers("n3"), false},
			{"Deployment", "core", "b", refers("gpu"), false},
			{"CronJob", "core", "c", refers("any"), false},
			{"Deployment", "other", "a", refers("n3"), false},
		},
	}) {
		got = append(got, string(f.Code)+" "+f.Statement())
		if f.Severity != translate.Warning {
			t.Errorf("%+v", f)
		}
	}
	want := []string{
		"NADRA-509 CronJob core/c: it requests networks by claim any: its next pods will stay Pending",
		"NADRA-509 Deployment core/a: it requests networks by claim n3: its next pods will stay Pending",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}
