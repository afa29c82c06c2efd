package controller

import (
	"bytes"
	"strings"
	"testing"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/uninstallrun"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

func TestUninstall(t *testing.T) {
	own := map[string]string{v1alpha1.ManagedByLabel: v1alpha1.Controller}
	pod, used := annotated(t, "p", time.Unix(1, 0))
	unused := used.DeepCopy()
	unused.Name = "nadra-net-0123456789"
	unused.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = "idle.a.nad.nadra.dev"
	theirs := unused.DeepCopy()
	theirs.Name, theirs.Labels = "nadra-net-9876543210", nil
	theirs.Spec.Spec.Devices.Requests[0].Exactly.DeviceClassName = "claimed.a.nad.nadra.dev"
	byHand := ownClass("a", "byhand")
	byHand.Labels = nil
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: Name},
		Spec: coordinationv1.LeaseSpec{
			HolderIdentity: ptr.To("nadra-controller-x"), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NowMicro()),
		},
	}
	c := cluster(pod, used, unused, theirs, byHand, ownClass("a", "net"), ownClass("a", "idle"), ownClass("a", "claimed"), lease,
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: Name}},
		&admissionv1.MutatingWebhookConfiguration{ObjectMeta: metav1.ObjectMeta{Name: "another"}},
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: DefaultSecret, Labels: own}})
	var out bytes.Buffer
	u := uninstallrun.OwnedRemover{Client: c, Namespace: "nadra-system", Secret: DefaultSecret, Out: &out}

	if err := u.Run(t.Context()); err == nil || !strings.Contains(err.Error(), "nadra-controller-x") || out.Len() > 0 {
		t.Fatalf("while a controller runs it says %v and does %q", err, out.String())
	}
	lease.Spec.HolderIdentity = ptr.To("")
	if err := c.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kept ResourceClaimTemplate a/" + used.Name + ": pod p refers to it",
		"kept DeviceClass net.a.nad.nadra.dev: ResourceClaimTemplate a/" + used.Name + " requests it",
		"kept DeviceClass claimed.a.nad.nadra.dev: ResourceClaimTemplate a/" + theirs.Name + " requests it",
		"deleted DeviceClass idle.a.nad.nadra.dev",
		"3 objects are kept",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("it does not say %q:\n%s", want, out.String())
		}
	}
	for name, want := range map[string]bool{used.Name: true, unused.Name: false, theirs.Name: true} {
		if there(t, c, &resourceapi.ResourceClaimTemplate{}, "a", name) != want {
			t.Errorf("template %s: it is there: %v, want %v", name, !want, want)
		}
	}
	for name, want := range map[string]bool{"net": true, "idle": false, "claimed": true, "byhand": true} {
		if there(t, c, &resourceapi.DeviceClass{}, "", name+".a.nad.nadra.dev") != want {
			t.Errorf("class of %s: it is there: %v, want %v", name, !want, want)
		}
	}
	if there(t, c, &admissionv1.MutatingWebhookConfiguration{}, "", Name) || !there(t, c, &admissionv1.MutatingWebhookConfiguration{}, "", "another") {
		t.Error("not just its own webhook configuration is gone")
	}
	if there(t, c, &corev1.Secret{}, "nadra-system", DefaultSecret) || there(t, c, &coordinationv1.Lease{}, "nadra-system", Name) {
		t.Error("its Secret or its Lease is still there")
	}
}
