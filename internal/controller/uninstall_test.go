package controller

import (
	"bytes"
	"fmt"
	"io"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	admissionv1 "k8s.io/api/admissionregistration/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/pkg/api/reason"
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
		&corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: Secret, Labels: own}})
	var out bytes.Buffer
	u := installation.Remover{Client: c, Namespace: "nadra-system", Secret: Secret, Say: lines(&out)}

	lease.Spec.HolderIdentity = ptr.To("")
	if err := c.Update(t.Context(), lease); err != nil {
		t.Fatal(err)
	}
	if err := u.Run(t.Context()); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"kept ResourceClaimTemplate a/" + used.Name + ": pod p ",
		"kept DeviceClass net.a.nad.nadra.dev: ResourceClaimTemplate a/" + used.Name,
		"kept DeviceClass claimed.a.nad.nadra.dev: ResourceClaimTemplate a/" + theirs.Name,
		"deleted DeviceClass idle.a.nad.nadra.dev",
		"3 objects ",
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
	if there(t, c, &corev1.Secret{}, "nadra-system", Secret) || there(t, c, &coordinationv1.Lease{}, "nadra-system", Name) {
		t.Error("its Secret or its Lease is still there")
	}
}

// lines returns a function that writes lines.
func lines(to io.Writer) func(format string, args ...any) {
	return func(format string, args ...any) { fmt.Fprintf(to, format+"\n", args...) }
}

// TestUninstallNeedsNoClock checks that the controller counts as running only while it renews
// its Lease, also if its clock is an hour ahead or behind.
func TestUninstallNeedsNoClock(t *testing.T) {
	const leader = "nadra-controller-x"
	for _, skew := range []time.Duration{-time.Hour, 0, time.Hour} {
		for _, runs := range []bool{true, false} {
			t.Run(fmt.Sprintf("clock %s, runs %t", skew, runs), func(t *testing.T) {
				synctest.Test(t, func(t *testing.T) {
					lease := &coordinationv1.Lease{
						ObjectMeta: metav1.ObjectMeta{Namespace: "nadra-system", Name: Name},
						Spec: coordinationv1.LeaseSpec{
							HolderIdentity: ptr.To(leader), LeaseDurationSeconds: ptr.To[int32](15), RenewTime: ptr.To(metav1.NewMicroTime(time.Now().Add(skew))),
						},
					}
					c := cluster(lease)
					if runs {
						time.AfterFunc(2*time.Second, func() {
							lease.Spec.RenewTime = ptr.To(metav1.NewMicroTime(time.Now().Add(skew)))
							if err := c.Update(t.Context(), lease); err != nil {
								t.Error(err)
							}
						})
					}
					var out bytes.Buffer
					u := installation.Remover{Client: c, Namespace: "nadra-system", Secret: Secret, Say: lines(&out)}
					began := time.Now()
					err := u.Run(t.Context())
					if took := time.Since(began); took > 15*time.Second {
						t.Errorf("it takes %s", took)
					}
					switch {
					case runs && (reason.Of(err) != reason.ControllerRunning || !strings.Contains(err.Error(), leader) || out.Len() > 0):
						t.Errorf("while a controller runs, the error is %v, and it does %q", err, out.String())
					case !runs && (err != nil || there(t, c, &coordinationv1.Lease{}, "nadra-system", Name)):
						t.Errorf("after a controller was killed: %v, %s", err, out.String())
					}
				})
			})
		}
	}
}
