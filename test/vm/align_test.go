//go:build e2e

package vm

import (
	"context"
	"fmt"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/test/lab"
)

// TestAlignedWithAnotherDriver requests a virtual function on the PCIe root of another
// driver's device. The scheduler must take one of the right card.
func TestAlignedWithAnotherDriver(t *testing.T) {
	f := scenario(t, "aligned")
	f.pools(map[string][]string{"any": {"pf0#2", "pf1#2"}}, nil)
	f.poolNAD("any", "intel.com/any", object{"type": "host-device", "ipam": f.hostLocal()})
	roots := f.rootsOf(t, "intel.com/any", 2)
	argv := []string{"neighbour", "/etc/kubernetes/kubeconfig", f.Guest.Name()}
	for root := range roots {
		argv = append(argv, "card-"+root[len(root)-2:]+"="+root)
	}
	f.must(f.Guest.Daemon(f.ctx, "/var/log/neighbour.log", argv...))
	f.classOfDriver("neighbour", "neighbour.example.com")
	for root := range roots {
		f.besideCard("card-" + root[len(root)-2:])
	}
	for root, device := range roots {
		testCase(t, "a VF on the PCIe root "+root+" of another driver's device", func(t *testing.T) {
			pod, seen := f.ready("card-" + root[len(root)-2:])
			claim, err := f.Claim(f.ctx, pod)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, r := range claim.Status.Allocation.Devices.Results {
				got[r.Driver] = r.Device
			}
			if got[lab.DriverName] != device || got["neighbour.example.com"] != pod.Name || seen.Link("vf") == nil {
				t.Errorf("allocated are %v, and the pod has %+v; want %s", got, seen.Links, device)
			}
		})
	}
	testCase(t, "and they go back", f.leavesNothing)
}

// rootsOf waits until a pool has devices on many PCIe roots, and returns the roots, each
// with its device. Each card has a slice of its own.
func (f *fixture) rootsOf(t *testing.T, resource string, many int) map[string]string {
	t.Helper()
	roots := map[string]string{}
	err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
		list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
		if err != nil {
			return err
		}
		clear(roots)
		for _, s := range list.Items {
			for _, d := range s.Spec.Devices {
				if ptr.Deref(d.Attributes[attachment.AttributeResourceName].StringValue, "") == resource {
					roots[ptr.Deref(d.Attributes["resource.kubernetes.io/pcieRoot"].StringValue, "")] = d.Name
				}
			}
		}
		if len(roots) != many {
			return fmt.Errorf("the devices of %s are on the PCIe roots %v, want %d", resource, roots, many)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return roots
}

// classOfDriver creates a class for a driver's devices, for the duration of the scenario.
func (f *fixture) classOfDriver(name, driver string) {
	f.Helper()
	f.class(&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec: resourceapi.DeviceClassSpec{Selectors: []resourceapi.DeviceSelector{{
			CEL: &resourceapi.CELDeviceSelector{Expression: fmt.Sprintf("device.driver == %q", driver)},
		}}},
	})
}

// besideCard creates a pod with a device of the neighbour and a VF on the same PCIe root.
func (f *fixture) besideCard(card string) {
	f.Helper()
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: card}}
	beside := resourceapi.FullyQualifiedName("resource.kubernetes.io/pcieRoot")
	template.Spec.Spec.Devices = resourceapi.DeviceClaim{
		Requests: []resourceapi.DeviceRequest{
			{Name: "card", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: "neighbour",
				// Only the root distinguishes its devices.
				Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{
					Expression: fmt.Sprintf(`device.attributes["resource.kubernetes.io"].pcieRoot.endsWith(%q)`, card[len(card)-2:]),
				}}},
			}},
			{Name: "vf", Exactly: &resourceapi.ExactDeviceRequest{
				DeviceClassName: attachment.DeviceClassName(attachment.NetworkRef{Namespace: f.ns, Name: "any"}),
			}},
		},
		Constraints: []resourceapi.DeviceConstraint{{Requests: []string{"card", "vf"}, MatchAttribute: &beside}},
		Config: []resourceapi.DeviceClaimConfiguration{{
			Requests: []string{"vf"},
			DeviceConfiguration: resourceapi.DeviceConfiguration{Opaque: &resourceapi.OpaqueDeviceConfiguration{
				Driver: lab.DriverName, Parameters: runtime.RawExtension{Raw: lab.Opaque(object{"interface": "vf"})},
			}},
		}},
	}
	f.must(f.CreateTemplate(f.ctx, template))
	f.start(lab.Pod(f.ns, card, card))
}
