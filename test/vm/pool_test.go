//go:build e2e

package vm

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// Networks that draw from resource pools, as the SR-IOV device plugin's
// ConfigMap defines them: nobody writes a device into a NAD. It is the way of
// every network with VFs: pools, a NAD that names one, its class, pods.
func TestPools(t *testing.T) {
	f := scenario(t, "pools")
	f.pools(map[string][]string{"left": {"pf0#0-1"}, "right": {"pf1#0-1"}}, withRDMA)
	for _, side := range []string{"left", "right"} {
		f.poolNAD(side, "intel.com/"+side,
			object{"type": "host-device", "capabilities": object{"deviceID": true}, "ipam": f.hostLocal()}, object{"type": "rdma"})
	}
	testCase(t, "functions of a ConfigMap's pools become devices", func(t *testing.T) {
		err := lab.Eventually(f.ctx, podLimit, func(ctx context.Context) error {
			devices, err := f.poolDevices(ctx)
			if err != nil {
				return err
			}
			if len(devices["intel.com/left"]) != 2 || len(devices["intel.com/right"]) != 2 {
				return fmt.Errorf("devices by their resources: %v; two are to be in each of intel.com/left and intel.com/right", devices)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	})
	f.createOf("a", "left")
	f.createOf("b", "left")
	f.createOf("c", "right")
	a, inA := f.ready("a")
	_, inB := f.ready("b")
	_, inC := f.ready("c")
	host, err := f.Guest.Net(f.ctx)
	f.must(err)
	testCase(t, "a pod draws a VF from a pool", func(t *testing.T) {
		if host.Link("pf0v0") != nil || host.Link("pf0v1") != nil {
			t.Error("the guest still has functions of the pool that is used up")
		}
		for pod, seen := range map[string]int{"a": len(inA.RDMA), "b": len(inB.RDMA), "c": len(inC.RDMA)} {
			if seen != 1 {
				t.Errorf("pod %s has %d RDMA devices, not one", pod, seen)
			}
		}
		if len(host.RDMA) != 1 {
			t.Errorf("the guest has RDMA devices %v; three of four are to be in pods", host.RDMA)
		}
	})
	testCase(t, "VFs of a pool of one card", func(t *testing.T) { f.ping(t, a, "net1", f.addressOf(t, "b", "left")) })
	testCase(t, "VFs of the pools of two cards", func(t *testing.T) { f.ping(t, a, "net1", f.addressOf(t, "c", "right")) })
	testCase(t, "VFs of pools go back", f.leavesNothing)
}

// hostLocal gives each pod of the scenario another address of one subnet.
func (f *fixture) hostLocal() object {
	return object{"type": "host-local", "dataDir": "/var/lib/cni/networks/" + f.ns, "subnet": "10.42.0.0/24"}
}

var withRDMA = object{"isRdma": true}

// pools defines resource pools, of names below intel.com, by their functions,
// for the time of the scenario; more is in all of their selectors.
func (f *fixture) pools(functions map[string][]string, more object) {
	f.Helper()
	var list []object
	for _, name := range slices.Sorted(maps.Keys(functions)) {
		selectors := object{"pfNames": functions[name]}
		maps.Copy(selectors, more)
		list = append(list, object{"resourceName": name, "selectors": selectors})
	}
	content, err := json.Marshal(object{"resourceList": list})
	f.must(err)
	configMaps := f.Kube.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	_, err = configMaps.Create(f.ctx, &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{Name: "sriovdp-config"}, Data: map[string]string{"config.json": string(content)},
	}, metav1.CreateOptions{})
	f.must(err)
	f.Cleanup(func() {
		if err := configMaps.Delete(context.WithoutCancel(f.ctx), "sriovdp-config", metav1.DeleteOptions{}); err != nil {
			f.Errorf("deleting the scenario's pools: %v", err)
		}
	})
}

// poolNAD creates a network that draws from a pool, and its class, as the
// controller does.
func (f *fixture) poolNAD(name, resource string, plugins ...object) {
	f.Helper()
	config, err := json.Marshal(object{"cniVersion": "1.0.0", "name": name, "plugins": plugins})
	f.must(err)
	nad := &nadv1.NetworkAttachmentDefinition{
		ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: name, Annotations: map[string]string{"k8s.v1.cni.cncf.io/resourceName": resource}},
		Spec:       nadv1.NetworkAttachmentDefinitionSpec{Config: string(config)},
	}
	_, err = f.NADs.K8sCniCncfIoV1().NetworkAttachmentDefinitions(f.ns).Create(f.ctx, nad, metav1.CreateOptions{})
	f.must(err)
	class := translate.DeviceClass(attachment.NetworkRef{Namespace: f.ns, Name: name}, resource)
	f.class(class)
}

// class makes a class for the time of the scenario.
func (f *fixture) class(class *resourceapi.DeviceClass) {
	f.Helper()
	classes := f.Kube.ResourceV1().DeviceClasses()
	_, err := classes.Create(f.ctx, class, metav1.CreateOptions{})
	f.must(err)
	f.Cleanup(func() {
		if err := classes.Delete(context.WithoutCancel(f.ctx), class.Name, metav1.DeleteOptions{}); err != nil {
			f.Errorf("deleting class %s: %v", class.Name, err)
		}
	})
}

// createOf creates a pod whose interface net1 is of a network with a class.
func (f *fixture) createOf(pod, network string) {
	f.Helper()
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: pod}}
	template.Spec.Spec.Devices.Requests = []resourceapi.DeviceRequest{{
		Name:    "net1",
		Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: attachment.DeviceClassName(attachment.NetworkRef{Namespace: f.ns, Name: network})},
	}}
	f.must(f.CreateTemplate(f.ctx, template))
	_, err := f.CreatePod(f.ctx, lab.Pod(f.ns, pod, pod))
	f.must(err)
}

// poolDevices lists the published devices by the resources that they are of.
func (f *fixture) poolDevices(ctx context.Context) (map[string][]string, error) {
	list, err := f.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	if err != nil {
		return nil, err
	}
	out := map[string][]string{}
	for _, slice := range list.Items {
		for _, device := range slice.Spec.Devices {
			if resource, ok := device.Attributes["k8s.cni.cncf.io/resourceName"]; ok {
				out[*resource.StringValue] = append(out[*resource.StringValue], device.Name)
			}
		}
	}
	return out, nil
}

func (f *fixture) addressOf(t *testing.T, pod, network string) string {
	address, err := f.Address(f.ctx, f.ns, pod, f.ns+"/"+network)
	if err != nil {
		t.Fatal(err)
	}
	return address
}
