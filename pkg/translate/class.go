package translate

import (
	"fmt"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// DeviceClass returns the class of a network that no earlier one shares its ID with.
func DeviceClass(ref attachment.NetworkRef, pool string) *resourceapi.DeviceClass {
	return deviceClass(ref, attachment.NetworkIDOf(ref), pool)
}

// deviceClass returns the class of a network. It selects the devices that list the network by its ID, or the
// devices of the resource pool from which the network draws. Its config names the network: the node
// attaches that one, and no other.
func deviceClass(ref attachment.NetworkRef, id attachment.NetworkID, pool string) *resourceapi.DeviceClass {
	expression := id.Selector()
	if pool != "" {
		expression = PoolDevices(pool)
	}
	return &resourceapi.DeviceClass{
		TypeMeta:   metav1.TypeMeta{APIVersion: resourceapi.SchemeGroupVersion.String(), Kind: "DeviceClass"},
		ObjectMeta: metav1.ObjectMeta{Name: attachment.DeviceClassName(ref)},
		Spec: resourceapi.DeviceClassSpec{
			Selectors: []resourceapi.DeviceSelector{{CEL: &resourceapi.CELDeviceSelector{Expression: expression}}},
			Config: []resourceapi.DeviceClassConfiguration{{DeviceConfiguration: resourceapi.DeviceConfiguration{
				Opaque: &resourceapi.OpaqueDeviceConfiguration{Driver: v1alpha1.DriverName, Parameters: attachment.ClassParameters(ref)},
			}}},
		},
	}
}

// sameClass reports whether two classes select the same devices and attach the same network. It compares
// configs by value, because the API server may reorder keys.
func sameClass(got, want resourceapi.DeviceClassSpec) bool {
	if len(got.Selectors) != len(want.Selectors) || len(got.Config) != len(want.Config) {
		return false
	}
	for i, s := range got.Selectors {
		if s.CEL == nil || s.CEL.Expression != want.Selectors[i].CEL.Expression {
			return false
		}
	}
	return sameJSON(got.Config, want.Config)
}

// ClassOf returns the class of a definition by whose ID nodes list its network, or nil if nodes would not
// publish it. The error says why its configuration cannot be used.
func ClassOf(nad *nadv1.NetworkAttachmentDefinition, id attachment.NetworkID, o Options) (*resourceapi.DeviceClass, error) {
	n, _ := networkOf(nad)
	if !newEnvironment(o).servable(n) {
		return nil, n.blocked
	}
	return deviceClass(attachment.RefOf(nad), id, n.resourceName), nil
}

// PoolDevices returns a CEL expression that selects the devices of one resource pool. It checks
// that the attribute exists, because network devices lack it and reading a missing attribute is
// an error.
func PoolDevices(pool string) string {
	const attributes = `device.attributes["k8s.cni.cncf.io"]` // of attachment.AttributeResourceName
	return fmt.Sprintf(`device.driver == %q && "resourceName" in %[2]s && %[2]s.resourceName == %[3]q`, v1alpha1.DriverName, attributes, pool)
}
