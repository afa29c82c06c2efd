//go:build e2e

package e2e

import (
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestClaimsThatCheat creates claims that try to get another network than their class's, or one that the
// allocated device is not for. One device lists red and blue. No container may run, and nothing may be
// attached; what the claims ask for otherwise is allowed.
func TestClaimsThatCheat(t *testing.T) {
	const (
		conf    = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-cheat","ipam":{}}`
		limited = `{"cniVersion":"1.0.0","type":"bridge","bridge":"br-cheat","ipam":{"type":"host-local","subnet":"10.70.0.0/29"}}`
	)
	named := func(network string) map[string]any { return map[string]any{"network": map[string]any{"name": network}} }
	ofClass := func(f *fixture, d *resourceapi.DeviceClaim, network string) {
		d.Requests[0].Exactly.DeviceClassName = attachment.DeviceClassName(attachment.NetworkRef{Namespace: f.NS, Name: network})
		d.Requests[0].Exactly.Selectors = nil
	}
	for name, tt := range map[string]struct {
		config map[string]any
		change func(*fixture, *resourceapi.DeviceClaim)
		parts  []string
	}{
		"config-of-another": {
			named("red"), func(f *fixture, d *resourceapi.DeviceClaim) { ofClass(f, d, "blue") }, []string{"/red", "/blue"},
		},
		"config-of-all-requests": {
			named("red"), func(f *fixture, d *resourceapi.DeviceClaim) {
				ofClass(f, d, "blue")
				d.Config[0].Requests = nil
			}, []string{"/red", "/blue"},
		},
		"device-of-another": {
			named("tiny"), func(f *fixture, d *resourceapi.DeviceClaim) {
				d.Requests[0].Exactly.Selectors[0].CEL.Expression = lab.NetworkID(f.NS + "/red").Selector()
			}, []string{"/tiny", "node-0-0"},
		},
		"no-network": {
			nil, func(_ *fixture, d *resourceapi.DeviceClaim) { d.Config = nil }, []string{"network"},
		},
		"device-without-the-capacity": {
			named("tiny"), func(f *fixture, d *resourceapi.DeviceClaim) {
				d.Requests[0].Exactly.Selectors[0].CEL.Expression = `device.driver == "net.nadra.dev" && !("addresses" in device.capacity["net.nadra.dev"])`
			}, []string{"/tiny", "node-0-0"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := setup(t, "cheat-"+name[:min(len(name), 20)])
			f.bridge("br-cheat")
			for network, config := range map[string]string{"red": conf, "blue": conf, "tiny": limited} {
				f.nad(network, config)
				class := translate.DeviceClass(attachment.NetworkRef{Namespace: f.NS, Name: network}, "")
				_, err := f.Kube.ResourceV1().DeviceClasses().Create(f.Ctx, class, metav1.CreateOptions{})
				f.Must(err)
				f.Cleanup(func() {
					f.Must(f.Kube.ResourceV1().DeviceClasses().Delete(f.Ctx, class.Name, metav1.DeleteOptions{}))
				})
			}
			f.Must(f.Published(f.Ctx, f.NS+"/red", f.NS+"/blue", f.NS+"/tiny"))
			template := lab.Template(f.NS, "web", lab.Want{Network: "blue", Config: tt.config})
			tt.change(f, &template.Spec.Spec.Devices)
			f.Must(f.CreateTemplate(f.Ctx, template))
			_, err := f.CreatePod(f.Ctx, lab.Pod(f.NS, "web", "web"))
			f.Must(err)
			f.refused(badCase{condition: "PrepareFailed", code: reason.ClaimInvalid, parts: tt.parts})
		})
	}
}
