package driver

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// otherDriversClaim returns a claim with devices of the other driver.
func otherDriversClaim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "vf", Driver: drivertest.OtherDriver, Pool: "node-1", Device: device,
		})
	}
	return c
}

// webWithClaims returns the pod of claim(), with claims of another driver by a name and by a
// template.
func webWithClaims() *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "web", UID: "web-uid"},
		Spec: corev1.PodSpec{ResourceClaims: []corev1.PodResourceClaim{
			{Name: "nadra", ResourceClaimTemplateName: ptr.To("nadra")},
			{Name: "named", ResourceClaimName: ptr.To("named")},
			{Name: "made", ResourceClaimTemplateName: ptr.To("vf")},
		}},
		Status: corev1.PodStatus{ResourceClaimStatuses: []corev1.PodResourceClaimStatus{
			{Name: "nadra", ResourceClaimName: ptr.To("c")}, {Name: "made", ResourceClaimName: ptr.To("made-x")},
		}},
	}
}

// TestPrepareTakesTheDeviceOfAnotherDriver checks which devices of another driver networks use.
func TestPrepareTakesTheDeviceOfAnotherDriver(t *testing.T) {
	for name, tt := range map[string]struct {
		networks    []string
		named, made []string
		want        string
		refused     []string // parts of the error
	}{
		"by a claim of its name":      {networks: []string{"vf"}, named: []string{"dev-7"}, want: "vf=7"},
		"by a template, beside a GPU": {networks: []string{"vf"}, made: []string{"gpu", "dev-8"}, want: "vf=8"},
		"two, and a network without": {
			networks: []string{"vf", "blue", "vf2"}, named: []string{"dev-8"}, made: []string{"dev-7"}, want: "vf=7 blue= vf2=8",
		},
		"none":                    {networks: []string{"vf"}, refused: []string{"example.com/vf"}},
		"one that is not for CNI": {networks: []string{"vf"}, named: []string{"gpu"}, refused: []string{"example.com/vf"}},
		"too few":                 {networks: []string{"vf", "vf2"}, named: []string{"dev-7"}, refused: []string{"default/vf2"}},
		"too many":                {networks: []string{"vf"}, named: []string{"dev-7", "dev-8"}, refused: []string{"default/vf", "dev-7", "dev-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			own := claim("c", tt.networks...)
			kube := fake.NewClientset(webWithClaims(), own, otherDriversClaim("named", tt.named...), otherDriversClaim("made-x", tt.made...), drivertest.OtherDriversSlice("7", "8"))
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }},
				drawing("example.com/vf", nad("vf", drivertest.VFConf)), drawing("example.com/vf", nad("vf2", drivertest.VFConf)), nad("blue", blueConf))
			err := prepare(t, d, own)["c-uid"].Err
			if tt.refused != nil {
				drivertest.WantReason(t, err, reason.DeviceMismatch, tt.refused...)
				drivertest.Same(t, "recorded", 0, len(d.store.ForClaim("c-uid")))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range d.store.ForClaim("c-uid") {
				var list struct{ Plugins []struct{ DeviceID string } }
				if err := json.Unmarshal(r.Attachment.Conflist, &list); err != nil {
					t.Fatal(err)
				}
				got = append(got, fmt.Sprintf("%s=%s", r.Attachment.Network.Name, list.Plugins[0].DeviceID))
				drivertest.Same(t, "a device of nadra's", (*attachment.Hardware)(nil), r.Hardware)
			}
			drivertest.Same(t, "the plugins' devices", tt.want, strings.Join(got, " "))
		})
	}
}

// claimOn returns a claim for networks that run on devices of the other driver, network@device, in that order. A network without a
// device of its own uses that of the request before.
func claimOn(name string, networks ...string) *resourceapi.ResourceClaim {
	var nads []string
	for _, n := range networks {
		nad, _, _ := strings.Cut(n, "@")
		nads = append(nads, nad)
	}
	c := claim(name, nads...)
	last := ""
	for i, n := range networks {
		if _, device, own := strings.Cut(n, "@"); own {
			last = fmt.Sprintf("nic%d", i)
			c.Spec.Devices.Requests = append(c.Spec.Devices.Requests, resourceapi.DeviceRequest{Name: last})
			c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
				Request: last, Driver: drivertest.OtherDriver, Pool: "node-1", Device: device,
			})
		}
		configure(c, fmt.Sprintf("req%d", i), fmt.Sprintf(`"deviceFrom":%q`, last))
	}
	return c
}

// TestPrepareRunsOnTheDeviceOfARequest checks networks that name the request for a device of another driver.
func TestPrepareRunsOnTheDeviceOfARequest(t *testing.T) {
	for name, tt := range map[string]struct {
		networks []string
		moved    string // a device that its driver has moved into the pod
		want     string
		code     reason.Code
		refused  []string // parts of the error
	}{
		"a function":                         {networks: []string{"sriov@dev-7"}, want: "sriov: 7"},
		"a function of the network's pool":   {networks: []string{"vf@dev-7"}, want: "vf: 7"},
		"two, each with its function":        {networks: []string{"sriov@dev-8", "vf@dev-7"}, want: "sriov: 8, vf: 7"},
		"an interface":                       {networks: []string{"whole@link"}, want: "whole: eth7"},
		"two on one interface":               {networks: []string{"lan@link", "lan2"}, want: "lan: eth7, lan2: eth7"},
		"an interface in the pod":            {networks: []string{"inner@link"}, moved: "link", want: "inner: eth7"},
		"one that its driver moves":          {networks: []string{"lan@link"}, moved: "link", code: reason.DeviceMismatch, refused: []string{drivertest.OtherDriver, "default/lan", "link"}},
		"two on one function":                {networks: []string{"sriov@dev-7", "sriov2"}, code: reason.DeviceMismatch, refused: []string{"dev-7", "req0"}},
		"one for itself, and one on it":      {networks: []string{"whole@link", "lan"}, code: reason.DeviceMismatch, refused: []string{"link", "req0"}},
		"nothing that a plugin could use":    {networks: []string{"sriov@gpu"}, code: reason.DeviceMismatch, refused: []string{"gpu", drivertest.OtherDriver}},
		"a device of another pool":           {networks: []string{"elsewhere@dev-7"}, code: reason.DeviceMismatch, refused: []string{"example.com/other", "example.com/vf"}},
		"one that is not published any more": {networks: []string{"sriov@dev-9"}, code: reason.DeviceGone, refused: []string{"dev-9", drivertest.OtherDriver}},
	} {
		t.Run(name, func(t *testing.T) {
			own := claimOn("c", tt.networks...)
			if tt.moved != "" {
				own.Status.Devices = []resourceapi.AllocatedDeviceStatus{{
					Driver: drivertest.OtherDriver, Pool: "node-1", Device: tt.moved, NetworkData: &resourceapi.NetworkDeviceData{InterfaceName: "eth7"},
				}}
			}
			slice := drivertest.OtherDriversSlice("7", "8")
			slice.Spec.Devices = append(slice.Spec.Devices, resourceapi.Device{Name: "link", Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				"ifName": {StringValue: ptr.To("eth7")},
			}})
			kube := fake.NewClientset(own, slice)
			d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }},
				nad("sriov", drivertest.VFConf), nad("sriov2", drivertest.VFConf), drawing("example.com/vf", nad("vf", drivertest.VFConf)), drawing("example.com/other", nad("elsewhere", drivertest.VFConf)),
				nad("whole", `{"cniVersion":"1.0.0","type":"host-device"}`), nad("lan", `{"cniVersion":"1.0.0","type":"macvlan"}`), nad("lan2", `{"cniVersion":"1.0.0","type":"macvlan"}`),
				nad("inner", `{"cniVersion":"1.0.0","type":"macvlan","linkInContainer":true}`))
			err := prepare(t, d, own)["c-uid"].Err
			if tt.refused != nil {
				drivertest.WantReason(t, err, tt.code, tt.refused...)
				drivertest.Same(t, "recorded", 0, len(d.store.ForClaim("c-uid")))
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, r := range d.store.ForClaim("c-uid") {
				var list struct {
					Plugins []struct{ DeviceID, Device, Master string }
				}
				if err := json.Unmarshal(r.Attachment.Conflist, &list); err != nil {
					t.Fatal(err)
				}
				p := list.Plugins[0]
				got = append(got, fmt.Sprintf("%s: %s", r.Attachment.Network.Name, cmp.Or(p.DeviceID, p.Device, p.Master)))
				drivertest.Same(t, "a device of nadra's", (*attachment.Hardware)(nil), r.Hardware)
			}
			drivertest.Same(t, "the plugins' devices", tt.want, strings.Join(got, ", "))
		})
	}
}

// TestOrdinaryPrepareSendsNoRequest checks pods whose networks draw from no pool.
func TestOrdinaryPrepareSendsNoRequest(t *testing.T) {
	kube := fake.NewClientset()
	d := newDriverWith(t, setup{clients: func(c *Clients) { c.Kube = kube }}, nad("blue", blueConf))
	if err := prepare(t, d, claim("c", "blue"))["c-uid"].Err; err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "requests", 0, len(kube.Actions()))
}
