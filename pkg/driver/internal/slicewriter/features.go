package slicewriter

import (
	"context"
	"fmt"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// The feature gates of the fields that the driver publishes.
const (
	// gateSharedDevices is that of devices that several claims share (KEP-5075).
	gateSharedDevices = "DRAConsumableCapacity"
	// gateTaints is that of taints (KEP-5055).
	gateTaints = "DRADeviceTaints"
)

// Features are what the API server keeps of a slice: it drops the fields of gates that are
// off.
type Features struct {
	// SharedDevices is whether several claims can have one device.
	SharedDevices bool
	// Taints is whether devices can have taints.
	Taints bool
}

// AllFeatures is assumed until the API server has answered.
var AllFeatures = Features{SharedDevices: true, Taints: true}

// Without returns the features that are left without those of some gates.
func (f Features) Without(gates []string) Features {
	for _, gate := range gates {
		switch gate {
		case gateSharedDevices:
			f.SharedDevices = false
		case gateTaints:
			f.Taints = false
		}
	}
	return f
}

// AskFeatures asks the API server what it keeps, by a slice that is not stored. To find out
// by the first slices that are stored would give a pod that is placed meanwhile a device
// that never comes again.
func AskFeatures(ctx context.Context, kube kubernetes.Interface, node string) (Features, error) {
	asked := &resourceapi.ResourceSlice{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "nadra-asks-"},
		Spec: resourceapi.ResourceSliceSpec{
			Driver: v1alpha1.DriverName, NodeName: &node, Pool: resourceapi.ResourcePool{Name: node + "/asked", ResourceSliceCount: 1},
			Devices: []resourceapi.Device{{
				Name: "asked", AllowMultipleAllocations: ptr.To(true),
				Taints: []resourceapi.DeviceTaint{{Key: "net.nadra.dev/asked", Effect: resourceapi.DeviceTaintEffectNoSchedule}},
			}},
		},
	}
	kept, err := kube.ResourceV1().ResourceSlices().Create(ctx, asked, metav1.CreateOptions{DryRun: []string{metav1.DryRunAll}})
	if err != nil {
		return AllFeatures, fmt.Errorf("asking the API server which fields of ResourceSlices it keeps: %w", err)
	}
	if len(kept.Spec.Devices) != 1 {
		return AllFeatures, fmt.Errorf("asking the API server which fields of ResourceSlices it keeps: it answered with %d devices, and was asked for one", len(kept.Spec.Devices))
	}
	device := kept.Spec.Devices[0]
	return Features{SharedDevices: device.AllowMultipleAllocations != nil, Taints: len(device.Taints) > 0}, nil
}
