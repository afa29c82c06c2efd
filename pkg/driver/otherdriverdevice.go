package driver

import (
	"context"

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
		if r.DeviceOnly() || r.pooled {
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
	if err != nil || len(devices) == 0 { // bind refuses a network without a device
		return err
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
				out = append(out, attachment.OtherDriverDevice{ResourceName: resourceName, ID: id, Claim: name, Driver: r.Driver, Device: r.Device})
			}
		}
	}
	return out, nil
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
