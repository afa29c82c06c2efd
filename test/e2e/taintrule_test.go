//go:build e2e

package e2e

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestTaintRule takes the device of a master out of service by a DeviceTaintRule (KEP-5055):
// new pods wait, and pods that run leave only if the rule says so.
func TestTaintRule(t *testing.T) {
	f := setup(t, "tainted")
	f.master("lan8")
	f.nad("blue", strings.NewReplacer("lan0", "lan8", "10.50.", "10.71.").Replace(macvlanConf))
	f.start("before", lab.Want{Network: "blue"})
	devices, err := f.Devices(f.Ctx)
	f.Must(err)
	device := devices[lab.NetworkID("tainted/blue")][0].Name
	rules := f.Kube.ResourceV1().DeviceTaintRules()
	rule := func(effect resourceapi.DeviceTaintEffect) *resourceapi.DeviceTaintRule {
		return &resourceapi.DeviceTaintRule{
			ObjectMeta: metav1.ObjectMeta{Name: "lan8-" + strings.ToLower(string(effect))},
			Spec: resourceapi.DeviceTaintRuleSpec{
				DeviceSelector: &resourceapi.DeviceTaintSelector{
					Driver: ptr.To(lab.DriverName), Pool: ptr.To(f.node.Name() + "/networks"), Device: &device,
				},
				Taint: resourceapi.DeviceTaint{Key: "example.com/maintenance", Effect: effect},
			},
		}
	}
	add := func(r *resourceapi.DeviceTaintRule) {
		_, err := rules.Create(f.Ctx, r, metav1.CreateOptions{})
		f.Must(err)
		t.Cleanup(func() {
			if err := rules.Delete(f.Ctx, r.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
				t.Error(err)
			}
		})
	}
	noSchedule := rule(resourceapi.DeviceTaintEffectNoSchedule)
	add(noSchedule)
	_, err = f.Create(f.Ctx, f.NS, "after", lab.Want{Network: "blue"})
	f.Must(err)
	f.Eventually(time.Minute, func(context.Context) error { return f.hasEvent("after", "FailedScheduling") })
	_, err = f.Ready(f.Ctx, f.NS, "before", 5*time.Second)
	f.Must(err)
	f.Must(rules.Delete(f.Ctx, noSchedule.Name, metav1.DeleteOptions{}))
	_, err = f.Ready(f.Ctx, f.NS, "after", time.Minute)
	f.Must(err)

	add(rule(resourceapi.DeviceTaintEffectNoExecute))
	f.Eventually(time.Minute, func(ctx context.Context) error {
		list, err := f.Kube.CoreV1().Pods(f.NS).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for _, p := range list.Items {
			if p.DeletionTimestamp == nil && p.Status.Phase == corev1.PodRunning {
				return fmt.Errorf("pod %s still runs", p.Name)
			}
		}
		return nil
	})
}
