package driver

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

const otherDriver = "sriov.example.com"

// othersSlice publishes devices dev-<ID> of example.com/vf.
func othersSlice(ids ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-other"}}
	s.Spec.Driver, s.Spec.NodeName, s.Spec.Pool = otherDriver, ptr.To("node-1"), resourceapi.ResourcePool{Name: "node-1", ResourceSliceCount: 1}
	for _, id := range ids {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: "dev-" + id, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			attachment.AttributeResourceName: strAttr("example.com/vf"), attachment.AttributeDeviceID: strAttr(id), "numaNode": intAttr(1),
		}})
	}
	s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: "gpu"})
	return s
}

// othersClaim is allocated devices of the other driver.
func othersClaim(name string, devices ...string) *resourceapi.ResourceClaim {
	c := &resourceapi.ResourceClaim{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}}
	c.Status.Allocation = &resourceapi.AllocationResult{}
	for _, device := range devices {
		c.Status.Allocation.Devices.Results = append(c.Status.Allocation.Devices.Results, resourceapi.DeviceRequestAllocationResult{
			Request: "vf", Driver: otherDriver, Pool: "node-1", Device: device,
		})
	}
	return c
}

// webWithClaims is the pod of claim(), with another driver's claims by a name and by a
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

func TestPrepareTakesTheDeviceOfAnotherDriver(t *testing.T) {
	for name, tt := range map[string]struct {
		networks    []string
		named, made []string
		want        string
		refused     string
	}{
		"by a claim of its name":      {networks: []string{"vf"}, named: []string{"dev-7"}, want: "vf=7"},
		"by a template, beside a GPU": {networks: []string{"vf"}, made: []string{"gpu", "dev-8"}, want: "vf=8"},
		"two, and a network without": {
			networks: []string{"vf", "blue", "vf2"}, named: []string{"dev-8"}, made: []string{"dev-7"}, want: "vf=7 blue= vf2=8",
		},
		"none":                    {networks: []string{"vf"}, refused: "claims have no device of it"},
		"one that is not for CNI": {networks: []string{"vf"}, named: []string{"gpu"}, refused: "claims have no device of it"},
		"too few":                 {networks: []string{"vf", "vf2"}, named: []string{"dev-7"}, refused: "which another network uses"},
		"too many":                {networks: []string{"vf"}, named: []string{"dev-7", "dev-8"}, refused: "is ambiguous"},
	} {
		t.Run(name, func(t *testing.T) {
			d := newDriver(t, drawing("example.com/vf", nad("vf", vfConf)), drawing("example.com/vf", nad("vf2", vfConf)), nad("blue", blueConf))
			own := claim("c", tt.networks...)
			kube := fake.NewClientset(webWithClaims(), own, othersClaim("named", tt.named...), othersClaim("made-x", tt.made...), othersSlice("7", "8"))
			d.clients.Kube = kube
			err := prepare(t, d, own)["c-uid"].Err
			if tt.refused != "" {
				if err == nil || !strings.Contains(err.Error(), tt.refused) {
					t.Fatalf("got %v", err)
				}
				drivertest.Same(t, "noted", 0, len(d.store.ForClaim("c-uid")))
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

// Pods that draw from no pool cost no request.
func TestOrdinaryPrepareAsksNobody(t *testing.T) {
	d := newDriver(t, nad("blue", blueConf))
	kube := fake.NewClientset()
	d.clients.Kube = kube
	if err := prepare(t, d, claim("c", "blue"))["c-uid"].Err; err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "requests", 0, len(kube.Actions()))
}

// A network whose devices another driver has here is offered; when these go, it
// goes.
func TestNetworksOfOtherDriversPoolsAreOffered(t *testing.T) {
	b := newBench(t)
	for name, pool := range map[string]string{"vf": "example.com/vf", "sf": "example.com/sf"} {
		if err := b.nads.Add(drawing(pool, nad(name, vfConf))); err != nil {
			t.Fatal(err)
		}
	}
	kube := fake.NewClientset(othersSlice("7"))
	changed := make(chan struct{}, 10)
	others, err := newOtherDevices(kube, "net.nadra.dev", "node-1", func() { changed <- struct{}{} })
	if err != nil {
		t.Fatal(err)
	}
	b.lent = others.pools
	others.begin(t.Context(), func(run func() error) { go func() { _ = run() }() })
	offered := func() (names []string) {
		offers, err := b.refresh(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range offers {
			names = append(names, o.network.Ref.Name)
		}
		return names
	}
	drivertest.Same(t, "offered", []string{"vf"}, offered())
	slim := others.informer.GetStore().List()[0].(*resourceapi.ResourceSlice)
	drivertest.Same(t, "devices that are remembered", 1, len(slim.Spec.Devices))
	drivertest.Same(t, "attributes that are remembered", 2, len(slim.Spec.Devices[0].Attributes))
	for len(changed) > 0 {
		<-changed
	}
	if err := kube.ResourceV1().ResourceSlices().Delete(t.Context(), "node-1-other", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	select {
	case <-changed:
	case <-time.After(tolerant):
		t.Fatal("nobody is told")
	}
	drivertest.Same(t, "offered", []string(nil), offered())
}
