//go:build e2e

package attacks

import (
	"context"
	"fmt"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestAttackQuota requests more devices than ResourceQuotas of the namespace allow, by each class that gives networks, and by the
// annotation.
func TestAttackQuota(t *testing.T) {
	a := setup(t, "quota")
	own := attachment.DeviceClassName(attachment.NetworkRef{Namespace: a.NS, Name: "n"})
	classes := []string{own, api.DriverName, "sriov.intel.com" + attachment.PoolClassSuffix}
	for i, class := range classes {
		a.limit(fmt.Sprintf("devices-%d", i), class)
	}
	for _, class := range classes {
		a.try("a second device of class "+class, func(a *attempt) {
			claims := a.tenant.ResourceV1().ResourceClaims(a.NS)
			_, err := claims.Create(a.Ctx, a.claimOf("first", class), metav1.CreateOptions{})
			a.Must(err)
			defer func() { a.Must(claims.Delete(a.Ctx, "first", metav1.DeleteOptions{})) }()
			_, err = claims.Create(a.Ctx, a.claimOf("second", class), metav1.CreateOptions{})
			a.refused(err, "a claim beyond the quota")
		})
	}
	a.try("a second pod with the annotation", func(a *attempt) {
		for _, name := range []string{"first", "second"} {
			_, err := a.tenant.CoreV1().Pods(a.NS).Create(a.Ctx, a.pod(name, "n"), metav1.CreateOptions{})
			a.Must(err)
		}
		ready := func() (n int) {
			for _, p := range a.pods(a.NS) {
				if lab.IsReady(&p) {
					n++
				}
			}
			return n
		}
		a.Eventually(time.Minute, func(context.Context) error {
			if ready() == 0 {
				return fmt.Errorf("no pod is Ready")
			}
			return nil
		})
		if err := a.throughout(5*time.Second, func(context.Context) error {
			if n := ready(); n > 1 {
				return fmt.Errorf("%d pods have the network", n)
			}
			return nil
		}); err != nil {
			a.harmed("%v", err)
		}
	})
}

// limit creates a quota of one device of a class, and waits until it is in force.
func (a *attempt) limit(name, class string) {
	a.Helper()
	quotas := a.Kube.CoreV1().ResourceQuotas(a.NS)
	_, err := quotas.Create(a.Ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.ResourceQuotaSpec{
		Hard: corev1.ResourceList{corev1.ResourceName(class + ".deviceclass.resource.k8s.io/devices"): resource.MustParse("1")},
	}}, metav1.CreateOptions{})
	a.Must(err)
	a.Eventually(30*time.Second, func(ctx context.Context) error {
		q, err := quotas.Get(ctx, name, metav1.GetOptions{})
		if err == nil && len(q.Status.Hard) == 0 {
			err = fmt.Errorf("quota %s is not in force", name)
		}
		return err
	})
}

// claimOf returns a claim of network n by a class. If it is not the network's own, a config names the network.
func (a *attempt) claimOf(name, class string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: a.NS, Name: name}}
	c.Spec.Devices.Requests = []resourceapi.DeviceRequest{{Name: "net", Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class}}}
	if class == attachment.DeviceClassName(attachment.NetworkRef{Namespace: a.NS, Name: "n"}) {
		return c
	}
	c.Spec.Devices.Config = []resourceapi.DeviceClaimConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
		Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: api.DriverName, Parameters: runtime.RawExtension{Raw: lab.Opaque(map[string]any{"network": api.NetworkReference{Namespace: a.NS, Name: "n"}})}},
	}}}
	return c
}
