package cleanup

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

var now = time.Date(2026, 11, 22, 12, 0, 0, 0, time.UTC)

// claim returns a claim that is an orphan if its pod is gone.
func claim(change func(*resourceapi.ResourceClaim)) resourceapi.ResourceClaim {
	c := resourceapi.ResourceClaim{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: "a", Name: "web-net", CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)),
			Annotations:     map[string]string{fromTemplate: "net"},
			OwnerReferences: []metav1.OwnerReference{{Kind: "Pod", Name: "web", UID: "pod", Controller: ptr.To(true)}},
		},
		Status: resourceapi.ResourceClaimStatus{
			Allocation:  &resourceapi.AllocationResult{Devices: resourceapi.DeviceAllocationResult{Results: []resourceapi.DeviceRequestAllocationResult{{Driver: v1alpha1.DriverName}}}},
			ReservedFor: []resourceapi.ResourceClaimConsumerReference{{Resource: "pods", Name: "web", UID: "pod"}},
		},
	}
	if change != nil {
		change(&c)
	}
	return c
}

func pod(uid, name string, templates ...string) corev1.Pod {
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "a", Name: name, UID: types.UID(uid)}}
	for _, t := range templates {
		p.Spec.ResourceClaims = append(p.Spec.ResourceClaims, corev1.PodResourceClaim{Name: "net", ResourceClaimTemplateName: &t})
	}
	return p
}

func TestClaims(t *testing.T) {
	for name, tt := range map[string]struct {
		claim resourceapi.ResourceClaim
		pods  []corev1.Pod
		want  probe.Action // empty if it is not an orphan
	}{
		"its pod is gone":                {claim(nil), []corev1.Pod{pod("other", "web")}, probe.ActionDelete},
		"its pod is there":               {claim(nil), []corev1.Pod{pod("pod", "web")}, ""},
		"another pod has reserved it":    {claim(func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].UID = "other" }), []corev1.Pod{pod("other", "x")}, ""},
		"something else has reserved it": {claim(func(c *resourceapi.ResourceClaim) { c.Status.ReservedFor[0].Resource = "jobs" }), nil, ""},
		"a person created it":            {claim(func(c *resourceapi.ResourceClaim) { c.Annotations = nil }), nil, ""},
		"no pod owns it":                 {claim(func(c *resourceapi.ResourceClaim) { c.OwnerReferences = nil }), nil, ""},
		"another driver's":               {claim(func(c *resourceapi.ResourceClaim) { c.Status.Allocation.Devices.Results[0].Driver = "gpu" }), nil, ""},
		"it is not allocated":            {claim(func(c *resourceapi.ResourceClaim) { c.Status.Allocation = nil }), nil, ""},
		"it is young":                    {claim(func(c *resourceapi.ResourceClaim) { c.CreationTimestamp = metav1.NewTime(now) }), nil, ""},
		"it is being deleted":            {claim(func(c *resourceapi.ResourceClaim) { c.DeletionTimestamp = ptr.To(metav1.NewTime(now)) }), nil, probe.ActionNone},
	} {
		t.Run(name, func(t *testing.T) {
			got := orphansIn(facts{Claims: []resourceapi.ResourceClaim{tt.claim}, Pods: tt.pods, Now: now}, time.Minute, sandboxes{})
			switch {
			case tt.want == "" && len(got) > 0, tt.want != "" && (len(got) != 1 || got[0].Action != tt.want):
				t.Errorf("%+v, want %q", got, tt.want)
			}
		})
	}
}

func TestTemplates(t *testing.T) {
	const name = "nadra-net-0123456789"
	template := resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{
		Namespace: "a", Name: name, CreationTimestamp: metav1.NewTime(now.Add(-time.Hour)), Labels: map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller},
	}}
	theirs := *template.DeepCopy()
	theirs.Labels["team"] = "x"
	elsewhere := pod("p", "web", name)
	elsewhere.Namespace = "b"
	for what, tt := range map[string]struct {
		f    facts
		want int
	}{
		"nothing refers to it":            {facts{Templates: []resourceapi.ResourceClaimTemplate{template}}, 1},
		"a pod does":                      {facts{Templates: []resourceapi.ResourceClaimTemplate{template}, Pods: []corev1.Pod{pod("p", "web", name)}}, 0},
		"a pod of another namespace does": {facts{Templates: []resourceapi.ResourceClaimTemplate{template}, Pods: []corev1.Pod{elsewhere}}, 1},
		"a workload does": {facts{
			Templates: []resourceapi.ResourceClaimTemplate{template}, Workloads: []workload{{"ReplicaSet", "a", "web", &corev1.PodTemplateSpec{Spec: pod("", "", name).Spec}, true}},
		}, 0},
		"it was modified": {facts{Templates: []resourceapi.ResourceClaimTemplate{theirs}}, 0},
	} {
		t.Run(what, func(t *testing.T) {
			tt.f.Now = now
			if got := orphansIn(tt.f, time.Minute, sandboxes{}); len(got) != tt.want {
				t.Errorf("%+v, want %d", got, tt.want)
			}
		})
	}
}

func TestWhereabouts(t *testing.T) {
	f := facts{
		Pods: []corev1.Pod{pod("p", "web")},
		Pools: []pool{{Namespace: "k", Name: "pool", Range: "10.0.0.0/24", Allocations: map[string]allocation{
			"1": {ID: "gone", Pod: "a/gone"}, "2": {ID: "gone", Pod: "a/web"}, "3": {ID: "runs", Pod: "a/gone"}, "4": {ID: "gone", Pod: "old-form"}, "5": {Pod: "a/gone"},
		}}},
		Reservations: []reserved{{Namespace: "k", Name: "10.0.0.1", allocation: allocation{ID: "gone", Pod: "a/gone"}}},
		Now:          now,
	}
	for name, tt := range map[string]struct {
		s    sandboxes
		want map[string]probe.Action
	}{
		"all nodes have answered": {sandboxes{IDs: map[string]bool{"runs": true}}, map[string]probe.Action{"k/pool#1": probe.ActionRelease, "k/pool#5": probe.ActionNone, "k/10.0.0.1": probe.ActionDelete}},
		"not all": {
			sandboxes{IDs: map[string]bool{"runs": true}, Unknown: "node x was not judged"}, map[string]probe.Action{"k/pool#1": probe.ActionNone, "k/pool#5": probe.ActionNone, "k/10.0.0.1": probe.ActionNone},
		},
	} {
		t.Run(name, func(t *testing.T) {
			got := map[string]probe.Action{}
			for _, o := range orphansIn(f, time.Minute, tt.s) {
				got[o.Object] = o.Action
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestAddressOfAKey(t *testing.T) {
	for _, tt := range []struct{ prefix, key, want string }{
		{"10.0.0.0/24", "7", "10.0.0.7"},
		{"10.0.0.128/25", "200", "10.0.1.72"},
		{"10.0.0.9/24", "300", "10.0.1.44"},
		{"fd00::/64", "18446744073709551615", "fd00::ffff:ffff:ffff:ffff"},
		{"255.255.255.0/24", "256", "#256"},
		{"10.0.0.0/24", "x", "#x"},
		{"nonsense", "1", "#1"},
	} {
		if got := (pool{Range: tt.prefix}).address(tt.key); got != tt.want {
			t.Errorf("%s of %s is %s, want %s", tt.key, tt.prefix, got, tt.want)
		}
	}
}
