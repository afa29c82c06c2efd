package driver

import (
	"context"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// extendedClaim is the scheduler's annotation of the claim that it makes for
// what a pod asks for as extended resources (KEP-5004).
const extendedClaim = "resource.kubernetes.io/extended-resource-claim"

func isExtended(claim *resourceapi.ResourceClaim) bool {
	return claim.Annotations[extendedClaim] == "true"
}

// planned are the requests of a pod's claims, with the attachment of each and
// the device of a pool that it has.
type planned struct {
	request
	attachment attachment.Attachment // empty for a device only
	hardware   *attachment.Hardware
}

// resolve makes the plan of a pod's requests: the networks in their order, each
// bound to its device, and then the devices that nothing is attached to.
func (d *Driver) resolve(requests []request) ([]planned, error) {
	var networks, devices []request
	for _, r := range requests {
		if r.DeviceOnly() {
			devices = append(devices, r)
			continue
		}
		networks = append(networks, r)
	}
	plan, err := attachment.NewPlan(selectionsOf(networks), d.networks.usable)
	if err != nil {
		return nil, err
	}
	var out []planned
	for i, r := range networks {
		p, err := d.bind(r, plan[i])
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
		out = append(out, p)
	}
	for _, r := range devices {
		hardware, err := d.give(r, nil)
		if err != nil {
			return nil, fmt.Errorf("request %s: %w", r.Request, err)
		}
		out = append(out, planned{request: r, hardware: hardware})
	}
	return out, nil
}

// bind has an attachment use the device that was allocated for it.
func (d *Driver) bind(r request, a attachment.Attachment) (planned, error) {
	p := planned{request: r, attachment: a}
	network, err := d.networks.usable(a.Network)
	if err != nil {
		return p, err
	}
	if r.lent != "" {
		p.attachment, err = a.WithDevice(r.lent)
		return p, err
	}
	if !r.pooled {
		return p, network.DrawsFrom(nil)
	}
	if p.hardware, err = d.give(r, &network); err != nil {
		return p, err
	}
	if p.hardware.ID == "" { // a share of several functions
		return p, nil
	}
	p.attachment, err = a.WithDevice(p.hardware.ID)
	return p, err
}

// give describes the allocated device of a pool for its pod; network is nil
// where nothing is attached to it.
func (d *Driver) give(r request, network *attachment.Network) (*attachment.Hardware, error) {
	device, err := d.deviceOf(r)
	if err != nil {
		return nil, err
	}
	given, err := device.given()
	if err != nil {
		return nil, err
	}
	given.Extended = r.extended
	if network == nil {
		return &given, nil
	}
	if err := network.DrawsFrom(&given); err != nil {
		return nil, err
	}
	if err := device.fits(*network); err != nil {
		return nil, err
	}
	if !device.shared() {
		given.Original, err = d.restorer.Describe(device.function())
	}
	return &given, err
}

// deviceOf is the device of a pool that a request was allocated.
func (d *Driver) deviceOf(r request) (hardwareDevice, error) {
	device, ok := d.hardware.lookup(r.Pool, r.Device)
	switch {
	case !ok:
		return device, reason.Errorf(reason.DeviceGone, "device %s of pool %s is not on this node, or no resource pool selects it any more: delete the pod, so that the next one is given another", r.Device, r.Pool)
	case device.Gone:
		return device, reason.Errorf(reason.DeviceGone, "device %s of pool %s, which was %s of %s, is gone from this node, or from its resource pool: delete the pod, so that the next one is given another",
			r.Device, r.Pool, device.function().ID, device.Pool.ResourceName)
	case device.Withheld != "":
		return device, reason.Errorf(reason.PoolConflict, "device %s of pool %s is not nadra's to give: %s: let one of the two serve resource %s on this node",
			r.Device, r.Pool, device.Withheld, device.Pool.ResourceName)
	}
	return device, nil
}

// pair gives the devices that a pod asked for as extended resources to the
// networks of its annotation that draw from their pools (behaviour B9). A pod
// that has networks by claims has them all: then its other devices are devices
// only.
func (d *Driver) pair(ctx context.Context, requests []request) ([]request, error) {
	if !slices.ContainsFunc(requests, func(r request) bool { return r.extended }) ||
		slices.ContainsFunc(requests, func(r request) bool { return !r.DeviceOnly() }) {
		return requests, nil
	}
	pod := requests[0].pod
	selections, err := d.annotated(ctx, pod)
	if err != nil || len(selections) == 0 {
		return requests, err
	}
	var networks []attachment.Network
	for _, s := range selections {
		n, err := d.networks.usable(s.Network)
		if err != nil {
			return nil, err
		}
		if n.ResourceName == "" {
			return nil, reason.Errorf(reason.AnnotationInvalid, "pod %s names network %s, for which it has no claim: an extended resource brings only networks that draw from its pool; "+
				"label the namespace for nadra's webhook, or convert the pod's manifest (kubectl nadra convert)", pod, n.Ref)
		}
		networks = append(networks, n)
	}
	free := make([]string, len(requests))
	for i, r := range requests {
		if device, ok := d.hardware.lookup(r.Pool, r.Device); r.extended && ok {
			free[i] = device.Pool.ResourceName
		}
	}
	devices, err := attachment.Pair(networks, free)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod, err)
	}
	return paired(requests, selections, devices), nil
}

// paired puts the networks first, in the order of the annotation.
func paired(requests []request, selections []attachment.Selection, devices []int) []request {
	var out []request
	for i, s := range selections {
		r := requests[devices[i]]
		r.Selection = s
		out = append(out, r)
	}
	for i, r := range requests {
		if !slices.Contains(devices, i) {
			out = append(out, r)
		}
	}
	return out
}

// annotated are the networks of a pod's annotation. The pod may be so new that
// the driver's watch has not seen it.
func (d *Driver) annotated(ctx context.Context, pod attachment.PodRef) ([]attachment.Selection, error) {
	meta := d.watch.Find(pod)
	if meta == nil {
		var err error
		resource := corev1.SchemeGroupVersion.WithResource("pods")
		if meta, err = d.clients.Metadata.Resource(resource).Namespace(pod.Namespace).Get(ctx, pod.Name, metav1.GetOptions{}); err != nil {
			return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its networks: %w", pod, err)
		}
	}
	selections, err := attachment.ParseSelections(meta.Annotations[attachment.NetworksAnnotation], pod.Namespace)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod, err)
	}
	for _, s := range selections {
		if err := d.cfg.Isolation.Allow(pod.Namespace, s.Network); err != nil {
			return nil, err
		}
	}
	return selections, nil
}
