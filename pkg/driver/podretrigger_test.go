package driver

import (
	"context"
	"errors"
	"slices"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	drapb "k8s.io/kubelet/pkg/apis/dra/v1"
	registerapi "k8s.io/kubelet/pkg/apis/pluginregistration/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestRetrigger checks which pods the kubelet has to try again once it has registered the
// driver.
func TestRetrigger(t *testing.T) {
	allocated := func(driver string) *resourceapi.ResourceClaim {
		c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
		c.Status.Allocation = &resourceapi.AllocationResult{}
		c.Status.Allocation.Devices.Results = []resourceapi.DeviceRequestAllocationResult{{Driver: driver}}
		return c
	}
	none := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "c"}}
	prepared := func(t *testing.T, d *Driver) { drivertest.PrepareWeb(t, d.store, []string{"net1"}) }
	attached := func(t *testing.T, d *Driver) {
		prepared(t, d)
		if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		phase   corev1.PodPhase
		going   bool
		noClaim bool
		claim   *resourceapi.ResourceClaim
		before  func(*testing.T, *Driver)
		// preparing has the claim that the kubelet is having prepared.
		preparing string
		want      bool
	}{
		"new":                        {phase: corev1.PodPending, claim: allocated("net.nadra.dev"), want: true},
		"new, in a call":             {phase: corev1.PodPending, claim: allocated("net.nadra.dev"), preparing: "c"},
		"new, beside a call":         {phase: corev1.PodPending, claim: allocated("net.nadra.dev"), preparing: "b", want: true},
		"new, of another driver":     {phase: corev1.PodPending, claim: allocated("gpu.example.com")},
		"new, not allocated":         {phase: corev1.PodPending, claim: none},
		"new, its claim is gone":     {phase: corev1.PodPending},
		"without a claim":            {phase: corev1.PodPending, noClaim: true},
		"prepared before the reboot": {phase: corev1.PodRunning, before: prepared, want: true},
		"prepared, and going":        {phase: corev1.PodRunning, before: prepared, going: true},
		"prepared, and done":         {phase: corev1.PodSucceeded, before: prepared},
		"attached":                   {phase: corev1.PodRunning, before: attached},
		"running, of another driver": {phase: corev1.PodRunning, claim: allocated("net.nadra.dev")},
	} {
		t.Run(name, func(t *testing.T) {
			pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"}}
			pod.Spec.NodeName, pod.Status.Phase = "node-1", tt.phase
			if !tt.noClaim {
				pod.Spec.ResourceClaims = []corev1.PodResourceClaim{{Name: "networks", ResourceClaimTemplateName: ptr.To("t")}}
				pod.Status.ResourceClaimStatuses = []corev1.PodResourceClaimStatus{{Name: "networks", ResourceClaimName: ptr.To("c")}}
			}
			if tt.going {
				pod.DeletionTimestamp = &metav1.Time{}
			}
			objects := []runtime.Object{pod}
			if tt.claim != nil {
				objects = append(objects, tt.claim)
			}
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = fake.NewClientset(objects...) }})
			if tt.before != nil {
				tt.before(t, d)
			}
			retrigger := func(context.Context, any) (any, error) { return nil, d.retrigger.retrigger(t.Context()) }
			request := &drapb.NodePrepareResourcesRequest{Claims: []*drapb.Claim{{Namespace: "default", Name: tt.preparing}}}
			if _, err := d.retrigger.intercept(t.Context(), request, nil, retrigger); err != nil {
				t.Fatal(err)
			}
			if n := len(d.retrigger.preparing); n > 0 {
				t.Errorf("%d claims count as being prepared after the call", n)
			}
			now, err := d.clients.Kube.CoreV1().Pods("default").Get(t.Context(), "web", metav1.GetOptions{})
			if err != nil {
				t.Fatal(err)
			}
			drivertest.Same(t, "retriggered", tt.want, now.Annotations[retriggerAnnotation] != "")
		})
	}
}

// TestNotInThisBoot checks that pods which were attached before a reboot wait.
func TestNotInThisBoot(t *testing.T) {
	d := newDriver(t)
	drivertest.PrepareWeb(t, d.store, []string{"net1"})
	if err := attachOnce(t, d, drivertest.SandboxNo(1)); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "before", false, slices.ContainsFunc(d.store.All(), d.retrigger.notInThisBoot))
	records := d.store.All()
	records[0].BootID = "the boot before"
	drivertest.Same(t, "after", true, slices.ContainsFunc(records, d.retrigger.notInThisBoot))
}

// TestRegistrationTriggers checks that several registrations trigger once.
func TestRegistrationTriggers(t *testing.T) {
	w := newPodRetrigger(&node{})
	call := func(request any, err error) {
		_, got := w.intercept(t.Context(), request, nil, func(context.Context, any) (any, error) { return nil, err })
		if !errors.Is(got, err) {
			t.Errorf("the answer's error is %v", got)
		}
	}
	call(&registerapi.InfoRequest{}, nil)
	call(&registerapi.RegistrationStatus{PluginRegistered: false}, errors.New("failed"))
	drivertest.Same(t, "triggered before", 0, len(w.registered.C()))
	call(&registerapi.RegistrationStatus{PluginRegistered: true}, nil)
	call(&registerapi.RegistrationStatus{PluginRegistered: true}, nil)
	drivertest.Same(t, "triggered", 1, len(w.registered.C()))
}
