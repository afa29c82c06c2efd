package drivertest

import (
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes/fake"
	k8stesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// OtherDriver is the name of another DRA driver.
const OtherDriver = "sriov.example.com"

// OtherDriversSlice returns the ResourceSlice in which the other driver publishes devices
// dev-<ID> of example.com/vf on node-1, and one that is not for CNI.
func OtherDriversSlice(ids ...string) *resourceapi.ResourceSlice {
	s := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: "node-1-other"}}
	s.Spec.Driver, s.Spec.NodeName, s.Spec.Pool = OtherDriver, ptr.To("node-1"), resourceapi.ResourcePool{Name: "node-1", ResourceSliceCount: 1}
	for _, id := range ids {
		s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: "dev-" + id, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
			attachment.AttributeResourceName: {StringValue: ptr.To("example.com/vf")}, attachment.AttributeDeviceID: {StringValue: &id},
			"numaNode": {IntValue: ptr.To[int64](1)},
		}})
	}
	s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: "gpu"})
	return s
}

// AnswerDryRuns makes a fake API server keep no slice of a request that is a dry run, as a real one does. drop
// removes the fields of a device whose feature gates are off; nil removes none.
func AnswerDryRuns(kube *fake.Clientset, drop func(*resourceapi.Device)) {
	kube.PrependReactor("create", "resourceslices", func(action k8stesting.Action) (bool, runtime.Object, error) {
		create := action.(k8stesting.CreateActionImpl)
		if len(create.CreateOptions.DryRun) == 0 {
			return false, nil, nil
		}
		slice := create.GetObject().(*resourceapi.ResourceSlice).DeepCopy()
		for i := range slice.Spec.Devices {
			if drop != nil {
				drop(&slice.Spec.Devices[i])
			}
		}
		return true, slice, nil
	})
}
