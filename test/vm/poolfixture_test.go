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
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
	"github.com/nadra-dev/nadra/test/lab"
)

// The parts of a scenario with resource pools: the pools, networks that draw from them,
// classes, pods, and the pods' devices.

// hostLocal returns an IPAM configuration by which each pod of the scenario gets another
// address of one subnet.
func (f *fixture) hostLocal() object {
	return object{"type": "host-local", "dataDir": "/var/lib/cni/networks/" + f.ns, "subnet": "10.42.0.0/24"}
}

var withRDMA = object{"isRdma": true}

// pools defines resource pools, with names below intel.com, by their functions, for the
// duration of the scenario. more is added to all their selectors.
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

// class creates a class for the duration of the scenario.
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

// classOfPool creates the class of a pool's extended resource, as the controller does.
func (f *fixture) classOfPool(resource string, expression string) {
	f.Helper()
	f.class(&resourceapi.DeviceClass{
		ObjectMeta: metav1.ObjectMeta{Name: "pool-" + f.ns},
		Spec: resourceapi.DeviceClassSpec{
			Selectors:            []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
			ExtendedResourceName: &resource,
		},
	})
}

// createOf creates a pod whose interfaces net1, net2, … are of networks with a
// class.
func (f *fixture) createOf(pod string, networks ...string) {
	f.Helper()
	f.createPodOf(lab.Pod(f.ns, pod, pod), networks...)
}

// createPodOf does the same as createOf with a given pod.
func (f *fixture) createPodOf(pod *corev1.Pod, networks ...string) {
	f.Helper()
	template := &resourceapi.ResourceClaimTemplate{ObjectMeta: metav1.ObjectMeta{Namespace: f.ns, Name: pod.Name}}
	for i, network := range networks {
		class := attachment.DeviceClassName(attachment.NetworkRef{Namespace: f.ns, Name: network})
		template.Spec.Spec.Devices.Requests = append(template.Spec.Spec.Devices.Requests, resourceapi.DeviceRequest{
			Name: fmt.Sprintf("net%d", i+1), Exactly: &resourceapi.ExactDeviceRequest{DeviceClassName: class},
		})
	}
	f.must(f.CreateTemplate(f.ctx, template))
	f.start(pod)
}

// dpdk returns a pod that requests devices of a pool as an extended resource.
func dpdk(namespace, name, resourceName string, count int64, networks string) *corev1.Pod {
	pod := lab.Pod(namespace, name, "")
	pod.Spec.ResourceClaims, pod.Spec.Containers[0].Resources.Claims = nil, nil
	pod.Spec.Containers[0].Resources.Limits = corev1.ResourceList{corev1.ResourceName(resourceName): *resource.NewQuantity(count, resource.DecimalSI)}
	if networks != "" {
		pod.Annotations = map[string]string{"k8s.v1.cni.cncf.io/networks": networks}
	}
	return pod
}

// poolDevices lists the published devices by their resources.
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

// functionOf returns the PCI address of the only function that a pod was allocated.
func (f *fixture) functionOf(t *testing.T, name string) string {
	t.Helper()
	functions := f.functionsOf(t, name)
	if len(functions) != 1 || functions["net1"] == "" {
		t.Fatalf("pod %s was allocated the functions %v, not one for net1", name, functions)
	}
	return functions["net1"]
}

// functionsOf returns the PCI addresses of the functions that a pod was allocated, by the
// requests of its claim.
func (f *fixture) functionsOf(t *testing.T, name string) map[string]string {
	t.Helper()
	claim, err := f.Claim(f.ctx, f.pod(t, name))
	if err != nil {
		t.Fatal(err)
	}
	list, err := f.Kube.ResourceV1().ResourceSlices().List(f.ctx, metav1.ListOptions{FieldSelector: "spec.driver=" + lab.DriverName})
	if err != nil {
		t.Fatal(err)
	}
	published := map[string]string{}
	for _, s := range list.Items {
		for _, d := range s.Spec.Devices {
			published[d.Name] = ptr.Deref(d.Attributes[attachment.AttributeDeviceID].StringValue, "")
		}
	}
	functions := map[string]string{}
	for _, r := range claim.Status.Allocation.Devices.Results {
		if functions[r.Request] = published[r.Device]; functions[r.Request] == "" {
			t.Fatalf("device %s of pod %s is not published", r.Device, name)
		}
	}
	return functions
}
