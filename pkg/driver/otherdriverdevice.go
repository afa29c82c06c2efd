package driver

import (
	"context"
	"fmt"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

// findOtherDevices finds the devices of other drivers that claims name for networks, and those for networks that draw
// from a pool and for which the claim has no device of nadra's. It sends no request for pods without such
// networks. For other pods it reads the claims, and the slices of the drivers that serve them.
func (p *planner) findOtherDevices(ctx context.Context, requests []request) error {
	others := publishedDevices{p.node, map[string][]resourceapi.ResourceSlice{}}
	if err := others.describe(ctx, requests); err != nil {
		return err
	}
	var networks []attachment.Network
	var places []int
	for i, r := range requests {
		if r.DeviceOnly() || r.pooled || r.Other != nil {
			continue
		}
		// resolve returns the error.
		if n, err := p.networks.Usable(r.Selection.Network); err == nil && n.ResourceName != "" {
			networks, places = append(networks, n), append(places, i)
		}
	}
	if len(networks) == 0 {
		return nil
	}
	devices, err := p.otherDevicesOf(ctx, requests[places[0]].pod, others)
	if err != nil {
		return err
	}
	devices = slices.DeleteFunc(devices, func(d attachment.OtherDriverDevice) bool {
		return slices.ContainsFunc(requests, func(r request) bool { return r.Other != nil && r.Other.Name() == d.Name() })
	})
	if len(devices) == 0 { // bind refuses a network without a device
		return nil
	}
	assigned, err := attachment.AssignOtherDevices(networks, devices)
	if err != nil {
		return err
	}
	for i, place := range places {
		requests[place].ofPool = &assigned[i]
	}
	return nil
}

// otherDevicesOf reads the devices of other drivers that were allocated for a pod, also for administration only.
func (p *planner) otherDevicesOf(ctx context.Context, ref attachment.PodRef, others publishedDevices) ([]attachment.OtherDriverDevice, error) {
	pod, err := p.clients.Kube.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its claims: %w", ref, err)
	}
	if string(pod.UID) != ref.UID {
		return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its claims: it is another pod of this name", ref)
	}
	var out []attachment.OtherDriverDevice
	for _, name := range attachment.ClaimNames(pod) {
		claim, err := p.clients.Kube.ResourceV1().ResourceClaims(ref.Namespace).Get(ctx, name, metav1.GetOptions{})
		if err != nil {
			return nil, reason.Errorf(reason.PodNotRead, "reading ResourceClaim %s/%s of the pod: %w", ref.Namespace, name, err)
		}
		if claim.Status.Allocation == nil {
			continue
		}
		for _, r := range claim.Status.Allocation.Devices.Results {
			if r.Driver == v1alpha1.DriverName {
				continue
			}
			device, _, err := others.get(ctx, r.Driver, r.Pool, r.Device)
			if err != nil {
				return nil, err
			}
			resourceName, id := publish.CNIDevice(device)
			if resourceName == "" || id == "" {
				continue
			}
			other := attachment.OtherDriverDevice{
				Claim: name, Driver: r.Driver, Pool: r.Pool, Device: r.Device, ShareID: string(ptr.Deref(r.ShareID, "")), AdminAccess: ptr.Deref(r.AdminAccess, false),
			}
			if other, err = other.Published(device.Attributes); err != nil {
				return nil, err
			}
			out = append(out, other)
		}
	}
	return out, nil
}

// describe adds to the devices that claims name for networks what their drivers publish of them.
func (d publishedDevices) describe(ctx context.Context, requests []request) error {
	for _, r := range requests {
		if r.Other == nil {
			continue
		}
		other := r.Other
		device, complete, err := d.get(ctx, other.Driver, other.Pool, other.Device)
		switch {
		case err != nil:
		case device.Name != "":
			*other, err = other.Published(device.Attributes)
		case complete:
			err = reason.Errorf(reason.DeviceGone, "driver %s publishes no device %s in pool %s any more: delete the pod, so that the next one gets another device",
				other.Driver, other.Device, other.Pool)
		default:
			err = reason.Errorf(reason.PodNotRead, "driver %s is publishing pool %s anew, so far without device %s: the kubelet tries again", other.Driver, other.Pool, other.Device)
		}
		if err != nil {
			return fmt.Errorf("request %s: deviceFrom: %w", r.Request, err)
		}
	}
	return nil
}

// bindOther makes the attachment i of a plan run on the device of another driver that the claim names. earlier are the
// requests of the attachments before it.
func bindOther(r request, network attachment.Network, plan attachment.Plan, i int, earlier []planned) (attachment.Attachment, error) {
	switch {
	case r.pooled:
		return plan[i], reason.Errorf(reason.DeviceMismatch, "deviceFrom: the request already has device %s of nadra's pool for network %s: remove deviceFrom", r.Device, network.Ref)
	case network.ResourceName != "" && network.ResourceName != r.Other.ResourceName:
		return plan[i], reason.Errorf(reason.DeviceMismatch, "network %s draws from resource pool %s, and device %s of driver %s has %s=%q: request a device of the pool",
			network.Ref, network.ResourceName, r.Other.Device, r.Other.Driver, attachment.AttributeResourceName, r.Other.ResourceName)
	}
	var taken []string
	for _, a := range plan {
		taken = append(taken, a.Interface)
	}
	out, err := plan[i].OnDevice(*r.Other, taken...)
	for _, e := range earlier {
		if on := e.attachment.On; err == nil && on != nil && on.Name() == out.On.Name() && (on.Alone || out.On.Alone) {
			err = reason.Errorf(reason.DeviceMismatch, "deviceFrom: request %s uses device %s of driver %s, too, and it serves one of them: request a device for each network", e.Request, on.Device, on.Driver)
		}
	}
	return out, err
}

// publishedDevices are the slices of other drivers, by field selector, as far as they were asked for.
type publishedDevices struct {
	*node
	bySelector map[string][]resourceapi.ResourceSlice
}

// get returns a device, without a name if its driver does not publish it, and whether the pool is complete. It looks in
// the slices of this node and, while the pool has others, in all of the driver: those for several nodes name no node.
// It lists each once.
func (d publishedDevices) get(ctx context.Context, driver, pool, name string) (device resourceapi.Device, complete bool, err error) {
	ofDriver := fields.Set{resourceapi.ResourceSliceSelectorDriver: driver}
	ofNode := fields.Set{resourceapi.ResourceSliceSelectorDriver: driver, resourceapi.ResourceSliceSelectorNodeName: d.cfg.NodeName}
	for _, selector := range []fields.Set{ofNode, ofDriver} {
		newest, err := d.newestOf(ctx, selector.String(), pool)
		if err != nil {
			return device, false, err
		}
		for _, s := range newest {
			if i := slices.IndexFunc(s.Spec.Devices, func(d resourceapi.Device) bool { return d.Name == name }); i >= 0 {
				return s.Spec.Devices[i], true, nil
			}
		}
		complete = len(newest) == 0 || int64(len(newest)) >= newest[0].Spec.Pool.ResourceSliceCount
		if complete && len(newest) > 0 {
			break
		}
	}
	return device, complete, nil
}

// newestOf returns the slices of a pool's newest generation.
func (d publishedDevices) newestOf(ctx context.Context, selector, pool string) (newest []resourceapi.ResourceSlice, err error) {
	if _, listed := d.bySelector[selector]; !listed {
		list, err := d.clients.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: selector})
		if err != nil {
			return nil, reason.Errorf(reason.PodNotRead, "listing the ResourceSlices with %s: %w", selector, err)
		}
		d.bySelector[selector] = list.Items
	}
	for _, s := range d.bySelector[selector] {
		switch {
		case s.Spec.Pool.Name != pool || len(newest) > 0 && s.Spec.Pool.Generation < newest[0].Spec.Pool.Generation:
		case len(newest) > 0 && s.Spec.Pool.Generation == newest[0].Spec.Pool.Generation:
			newest = append(newest, s)
		default:
			newest = []resourceapi.ResourceSlice{s}
		}
	}
	return newest, nil
}
