package publish

import (
	"context"
	"fmt"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	resourceinformers "k8s.io/client-go/informers/resource/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
)

// otherDriversWait limits how long the start waits for the slices of other drivers. If
// they come later, their networks are offered later.
const otherDriversWait = 5 * time.Second

// OtherDrivers watches the devices for CNI (attachment.OtherDriverDevice) that other DRA drivers publish
// on this node. A network that draws from a pool of theirs is published without a device of
// nadra's: its pods have the device by a claim of their own.
type OtherDrivers struct {
	informer cache.SharedIndexInformer
}

// NewOtherDrivers returns a watch that has not started.
func NewOtherDrivers(kube kubernetes.Interface, node string) (*OtherDrivers, error) {
	selector := fields.AndSelectors(
		fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, node),
		fields.OneTermNotEqualSelector(resourceapi.ResourceSliceSelectorDriver, v1alpha1.DriverName),
	).String()
	o := &OtherDrivers{informer: resourceinformers.NewFilteredResourceSliceInformer(kube, 0, cache.Indexers{}, func(l *metav1.ListOptions) { l.FieldSelector = selector })}
	if err := o.informer.SetTransform(slimSlice); err != nil {
		return nil, fmt.Errorf("watching the ResourceSlices of other drivers: %w", err)
	}
	return o, nil
}

// Start watches until ctx ends, and calls changed after every change. It returns when all
// slices were read, or after otherDriversWait.
func (o *OtherDrivers) Start(ctx context.Context, run func(func() error), changed func()) error {
	if _, err := o.informer.AddEventHandler(background.OnChange(changed)); err != nil {
		return fmt.Errorf("watching the ResourceSlices of other drivers: %w", err)
	}
	run(func() error { o.informer.RunWithContext(ctx); return nil })
	limited, cancel := context.WithTimeout(ctx, otherDriversWait)
	defer cancel()
	cache.WaitForCacheSync(limited.Done(), o.informer.HasSynced)
	return nil
}

// slimSlice keeps the devices for CNI of a slice, and of these the two attributes.
func slimSlice(object any) (any, error) {
	slice, ok := object.(*resourceapi.ResourceSlice)
	if !ok {
		return object, nil
	}
	slim := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice.Name, ResourceVersion: slice.ResourceVersion}}
	slim.Spec.Driver, slim.Spec.NodeName, slim.Spec.Pool = slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.Pool
	for _, d := range slice.Spec.Devices {
		if resourceName, id := CNIDevice(d); resourceName != "" && id != "" {
			slim.Spec.Devices = append(slim.Spec.Devices, resourceapi.Device{Name: d.Name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				attachment.AttributeResourceName: offer.String(resourceName), attachment.AttributeDeviceID: offer.String(id),
			}})
		}
	}
	return slim, nil
}

// CNIDevice returns the attributes of a device by which CNI plugins get it. They are empty
// if the device is not for CNI.
func CNIDevice(d resourceapi.Device) (resourceName, id string) {
	text := func(name resourceapi.QualifiedName) string { return ptr.Deref(d.Attributes[name].StringValue, "") }
	return text(attachment.AttributeResourceName), text(attachment.AttributeDeviceID)
}

// Pools returns the resource pools of which other drivers publish devices here.
func (o *OtherDrivers) Pools() map[string]bool {
	out := map[string]bool{}
	for _, object := range o.informer.GetStore().List() {
		for _, d := range object.(*resourceapi.ResourceSlice).Spec.Devices {
			resourceName, _ := CNIDevice(d)
			out[resourceName] = true
		}
	}
	return out
}
