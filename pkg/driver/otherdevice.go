package driver

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

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// otherDevicesWait bounds how long the start waits for the slices of others. One
// that is late only has networks offered later.
const otherDevicesWait = 5 * time.Second

// otherDevices watches what other DRA drivers publish on this node for CNI
// (attachment.Lent). A network that draws from a pool of theirs is offered here
// without a device: its pods bring the device by a claim of their own.
type otherDevices struct {
	informer cache.SharedIndexInformer
}

// newOtherDevices prepares the watch; changed is called after every change.
func newOtherDevices(kube kubernetes.Interface, driver, node string, changed func()) (*otherDevices, error) {
	selector := fields.AndSelectors(
		fields.OneTermEqualSelector(resourceapi.ResourceSliceSelectorNodeName, node),
		fields.OneTermNotEqualSelector(resourceapi.ResourceSliceSelectorDriver, driver),
	).String()
	o := &otherDevices{informer: resourceinformers.NewFilteredResourceSliceInformer(kube, 0, cache.Indexers{}, func(l *metav1.ListOptions) { l.FieldSelector = selector })}
	if err := o.informer.SetTransform(slimSlice); err != nil {
		return nil, fmt.Errorf("watching the ResourceSlices of other drivers: %w", err)
	}
	poke := func(any) { changed() }
	if _, err := o.informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: poke, UpdateFunc: func(_, n any) { poke(n) }, DeleteFunc: poke,
	}); err != nil {
		return nil, fmt.Errorf("watching the ResourceSlices of other drivers: %w", err)
	}
	return o, nil
}

// begin watches until ctx ends, and returns when what there is has been read, or
// has waited for long enough.
func (o *otherDevices) begin(ctx context.Context, start func(func() error)) {
	start(func() error { o.informer.RunWithContext(ctx); return nil })
	limited, cancel := context.WithTimeout(ctx, otherDevicesWait)
	defer cancel()
	cache.WaitForCacheSync(limited.Done(), o.informer.HasSynced)
}

// slimSlice keeps of a slice the devices for CNI, and of these the two attributes.
func slimSlice(object any) (any, error) {
	slice, ok := object.(*resourceapi.ResourceSlice)
	if !ok {
		return object, nil
	}
	slim := &resourceapi.ResourceSlice{ObjectMeta: metav1.ObjectMeta{Name: slice.Name, ResourceVersion: slice.ResourceVersion}}
	slim.Spec.Driver, slim.Spec.NodeName, slim.Spec.Pool = slice.Spec.Driver, slice.Spec.NodeName, slice.Spec.Pool
	for _, d := range slice.Spec.Devices {
		if resourceName, id := forCNI(d); resourceName != "" && id != "" {
			slim.Spec.Devices = append(slim.Spec.Devices, resourceapi.Device{Name: d.Name, Attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
				attachment.AttributeResourceName: strAttr(resourceName), attachment.AttributeDeviceID: strAttr(id),
			}})
		}
	}
	return slim, nil
}

// forCNI returns the attributes of a device by which CNI plugins get it; they are
// empty if it has none.
func forCNI(d resourceapi.Device) (resourceName, id string) {
	text := func(name resourceapi.QualifiedName) string {
		if s := d.Attributes[name].StringValue; s != nil {
			return *s
		}
		return ""
	}
	return text(attachment.AttributeResourceName), text(attachment.AttributeDeviceID)
}

// pools returns the resource pools of which other drivers publish devices here.
func (o *otherDevices) pools() map[string]bool {
	out := map[string]bool{}
	for _, object := range o.informer.GetStore().List() {
		for _, d := range object.(*resourceapi.ResourceSlice).Spec.Devices {
			resourceName, _ := forCNI(d)
			out[resourceName] = true
		}
	}
	return out
}

// lend finds the devices of other drivers for the networks that draw from a pool
// and for which the claim has no device of nadra's. Pods without such networks
// cost nothing; for the others their claims, and the slices of the drivers that
// serve them, are read.
func (d *Driver) lend(ctx context.Context, requests []request) error {
	var networks []attachment.Network
	var places []int
	for i, r := range requests {
		if r.DeviceOnly() || r.pooled {
			continue
		}
		// An error is resolve's to tell.
		if n, err := d.networks.usable(r.Selection.Network); err == nil && n.ResourceName != "" {
			networks, places = append(networks, n), append(places, i)
		}
	}
	if len(networks) == 0 {
		return nil
	}
	devices, err := d.lentTo(ctx, requests[places[0]].pod)
	if err != nil || len(devices) == 0 { // bind refuses a network without a device
		return err
	}
	lent, err := attachment.Lend(networks, devices)
	if err != nil {
		return err
	}
	for i, place := range places {
		requests[place].lent = lent[i].ID
	}
	return nil
}

// lentTo reads the devices of other drivers that were allocated for a pod.
func (d *Driver) lentTo(ctx context.Context, ref attachment.PodRef) ([]attachment.Lent, error) {
	pod, err := d.clients.Kube.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its claims: %w", ref, err)
	}
	if string(pod.UID) != ref.UID {
		return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its claims: it is another pod of this name", ref)
	}
	published := map[string]map[string]resourceapi.Device{}
	var out []attachment.Lent
	for _, name := range claimNames(pod) {
		claim, err := d.clients.Kube.ResourceV1().ResourceClaims(ref.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, reason.Errorf(reason.PodNotRead, "reading ResourceClaim %s/%s of the pod: %w", ref.Namespace, name, err)
		}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == d.cfg.DriverName {
				continue
			}
			if published[r.Driver] == nil {
				if published[r.Driver], err = d.devicesOfDriver(ctx, r.Driver); err != nil {
					return nil, err
				}
			}
			resourceName, id := forCNI(published[r.Driver][r.Pool+"/"+r.Device])
			if resourceName != "" && id != "" {
				out = append(out, attachment.Lent{ResourceName: resourceName, ID: id, Claim: name, Driver: r.Driver, Device: r.Device})
			}
		}
	}
	return out, nil
}

// devicesOfDriver reads what a driver publishes on this node, by pool/device.
func (d *Driver) devicesOfDriver(ctx context.Context, driver string) (map[string]resourceapi.Device, error) {
	list, err := d.clients.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		resourceapi.ResourceSliceSelectorDriver: driver, resourceapi.ResourceSliceSelectorNodeName: d.cfg.NodeName,
	}.String()})
	if err != nil {
		return nil, reason.Errorf(reason.PodNotRead, "listing the ResourceSlices of driver %s: %w", driver, err)
	}
	out := map[string]resourceapi.Device{}
	newest := map[string]int64{}
	for _, s := range list.Items {
		newest[s.Spec.Pool.Name] = max(newest[s.Spec.Pool.Name], s.Spec.Pool.Generation)
	}
	for _, s := range list.Items {
		if s.Spec.Pool.Generation < newest[s.Spec.Pool.Name] {
			continue
		}
		for _, device := range s.Spec.Devices {
			out[s.Spec.Pool.Name+"/"+device.Name] = device
		}
	}
	return out, nil
}
