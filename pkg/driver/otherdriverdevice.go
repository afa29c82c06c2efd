package driver

import (
	"context"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
)

// findOtherDevices finds the devices of other drivers for networks that draw from a pool and
// for which the claim has no device of nadra's. It sends no request for pods without such
// networks. For other pods it reads the claims, and the slices of the drivers that serve them.
func (p *planner) findOtherDevices(ctx context.Context, requests []request) error {
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
	devices, err := p.otherDevicesOf(ctx, requests[places[0]].pod)
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
		requests[place].otherDevice = assigned[i].ID
	}
	return nil
}

// otherDevicesOf reads the devices of other drivers that were allocated for a pod.
func (p *planner) otherDevicesOf(ctx context.Context, ref attachment.PodRef) ([]attachment.OtherDriverDevice, error) {
	pod, err := p.clients.Kube.CoreV1().Pods(ref.Namespace).Get(ctx, ref.Name, metav1.GetOptions{})
	if err != nil {
		return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its claims: %w", ref, err)
	}
	if string(pod.UID) != ref.UID {
		return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its claims: it is another pod of this name", ref)
	}
	published := map[string]map[string]resourceapi.Device{}
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
			if r.Driver == p.cfg.DriverName {
				continue
			}
			if published[r.Driver] == nil {
				if published[r.Driver], err = p.devicesOfDriver(ctx, r.Driver); err != nil {
					return nil, err
				}
			}
			resourceName, id := publish.CNIDevice(published[r.Driver][r.Pool+"/"+r.Device])
			if resourceName != "" && id != "" {
				out = append(out, attachment.OtherDriverDevice{ResourceName: resourceName, ID: id, Claim: name, Driver: r.Driver, Pool: r.Pool, Device: r.Device})
			}
		}
	}
	return out, nil
}

// describeOthers adds to the devices that claims name for networks what their drivers publish of them.
func (p *planner) describeOthers(ctx context.Context, requests []request, claims []*resourceapi.ResourceClaim) error {
	published := map[string]map[string]resourceapi.Device{}
	for _, r := range requests {
		if r.Other == nil {
			continue
		}
		other := r.Other
		if published[other.Driver] == nil {
			devices, err := p.devicesOfDriver(ctx, other.Driver)
			if err != nil {
				return err
			}
			published[other.Driver] = devices
		}
		device, found := published[other.Driver][other.Pool+"/"+other.Device]
		if !found {
			return reason.Errorf(reason.DeviceGone, "request %s: deviceFrom: driver %s publishes no device %s in pool %s for this node any more: delete the pod, so that the next one gets another device",
				r.Request, other.Driver, other.Device, other.Pool)
		}
		*other = other.Published(device.Attributes)
		other.Moved = moves(claims, *other)
	}
	return nil
}

// moves reports whether the driver of a device has already reported, in a claim, an interface of it in a pod.
func moves(claims []*resourceapi.ResourceClaim, d attachment.OtherDriverDevice) bool {
	return slices.ContainsFunc(claims, func(c *resourceapi.ResourceClaim) bool {
		return slices.ContainsFunc(c.Status.Devices, func(s resourceapi.AllocatedDeviceStatus) bool {
			reported := attachment.OtherDriverDevice{Driver: s.Driver, Pool: s.Pool, Device: s.Device}
			return reported == d.Name() && s.NetworkData != nil && s.NetworkData.InterfaceName != ""
		})
	})
}

// bindOther makes an attachment run on the device of another driver that the claim names, and adds it to users.
func bindOther(r request, network attachment.Network, a attachment.Attachment, users otherUsers) (attachment.Attachment, error) {
	switch {
	case r.pooled:
		return a, reason.Errorf(reason.DeviceMismatch, "deviceFrom: the request already has device %s of nadra's pool for network %s: remove deviceFrom", r.Device, network.Ref)
	case network.ResourceName != "" && network.ResourceName != r.Other.ResourceName:
		return a, reason.Errorf(reason.DeviceMismatch, "network %s draws from resource pool %s, and device %s of driver %s has %s=%q: request a device of the pool",
			network.Ref, network.ResourceName, r.Other.Device, r.Other.Driver, attachment.AttributeResourceName, r.Other.ResourceName)
	}
	on, alone, err := a.OnDevice(*r.Other)
	if err != nil {
		return on, err
	}
	if first, used := users[r.Other.Name()]; used && (alone || first.alone) {
		return on, reason.Errorf(reason.DeviceMismatch, "deviceFrom: request %s uses device %s of driver %s, too, and it serves one of them: request a device for each network",
			first.request, r.Other.Device, r.Other.Driver)
	}
	users[r.Other.Name()] = otherUser{r.Request, alone}
	return on, nil
}

// otherUsers are the requests by the devices of other drivers that their networks run on.
type otherUsers map[attachment.OtherDriverDevice]otherUser

// otherUser is a request whose network runs on a device, and takes it for itself if it is alone.
type otherUser struct {
	request string
	alone   bool
}

// devicesOfDriver reads the devices that a driver publishes on this node, by pool/device.
func (p *planner) devicesOfDriver(ctx context.Context, driver string) (map[string]resourceapi.Device, error) {
	list, err := p.clients.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{FieldSelector: fields.Set{
		resourceapi.ResourceSliceSelectorDriver: driver, resourceapi.ResourceSliceSelectorNodeName: p.cfg.NodeName,
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
