package driver

import (
	"context"
	"encoding/json"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/podedit"
)

// planUnclaimed returns what is to be recorded for a pod that gets networks by its annotation,
// without a claim. A network of a resource pool gets a device that a device plugin has given to the
// pod. The planner refuses the pod if it has none: other devices are allocated by claims.
func (p *planner) planUnclaimed(ctx context.Context, pod attachment.PodRef, selected []attachment.Selection, static bool) ([]attachment.Prepared, error) {
	networks := make([]attachment.Network, len(selected))
	for i, n := range selected {
		if err := p.cfg.Isolation.Allow(pod.Namespace, n.Network); err != nil {
			return nil, err
		}
		var err error
		if networks[i], err = p.networks.Usable(n.Network); err != nil {
			return nil, err
		}
	}
	devices, err := p.pluginDevicesFor(ctx, pod, networks)
	if err != nil {
		return nil, err
	}
	plan, err := attachment.NewPlan(selected, p.networks.Usable)
	if err != nil {
		return nil, err
	}
	out := make([]attachment.Prepared, len(plan))
	for i, a := range plan {
		if devices[i] != "" {
			if a, err = a.WithDevice(devices[i]); err != nil {
				return nil, err
			}
		}
		out[i] = attachment.Prepared{Pod: pod, Index: i, Request: a.Interface, Attachment: a, Static: static}
	}
	return out, nil
}

// pluginDevicesFor returns the ID of a device of the pod for each network, or "" for networks that
// need none. It asks the kubelet only if a network needs one.
func (p *planner) pluginDevicesFor(ctx context.Context, pod attachment.PodRef, networks []attachment.Network) ([]string, error) {
	var devices map[string][]string
	if slices.ContainsFunc(networks, func(n attachment.Network) bool { return n.ResourceName != "" }) {
		var err error
		if devices, err = p.pluginDevices(ctx, pod); err != nil {
			return nil, reason.Errorf(reason.PodNotRead, "reading the devices of pod %s: %w", pod, err)
		}
	}
	return attachment.AssignPluginDevices(networks, devices)
}

// deviceHeld returns an error if a device of the plan belongs to another pod on this node, and one of the two is
// without a claim: a device plugin may have given it away while nadra's devices include it, too. A device that only
// the author of the other pod names is not held: otherwise any pod could keep it from all others.
func deviceHeld(plan []attachment.Prepared, holders holders) error {
	for _, p := range plan {
		id := deviceOfPlan(p)
		if id == "" || p.ShareID != "" || p.Unclaimed() && p.Attachment.ResourceName == "" {
			continue
		}
		for r := range holders {
			named := r.Hardware == nil && r.Attachment.On == nil && r.Attachment.ResourceName == ""
			if r.Pod.UID != p.Pod.UID && !named && (p.Unclaimed() || r.Unclaimed()) && deviceOfPlan(r.Prepared) == id {
				return reason.Errorf(reason.DeviceInUse, "device %s of pod %s is still in use on this node by pod %s: "+
					"it is free when that pod is gone; let only one of nadra and the device plugin serve the device", id, p.Pod, r.Pod)
			}
		}
	}
	return nil
}

// deviceOfPlan returns the ID of the device that an attachment uses, or "".
func deviceOfPlan(p attachment.Prepared) string {
	if p.Hardware != nil {
		return p.Hardware.ID
	}
	var id string
	_ = json.Unmarshal(p.Attachment.CapabilityArgs["deviceID"], &id) // an attachment without a device has none
	return id
}

// planAdded returns what is to be recorded for a network that an edit adds to a running pod.
func (p *planner) planAdded(pod attachment.PodRef, a podedit.Addition) (attachment.Prepared, error) {
	if err := p.cfg.Isolation.Allow(pod.Namespace, a.Selection.Network); err != nil {
		return attachment.Prepared{}, err
	}
	network, err := p.networks.Usable(a.Selection.Network)
	if err != nil {
		return attachment.Prepared{}, err
	}
	if network.ResourceName != "" {
		return attachment.Prepared{}, poolEdited(a, network.ResourceName)
	}
	made, err := attachment.NewAttachment(network, a.Selection, a.Interface)
	return attachment.Prepared{Pod: pod, Index: a.Index, Request: a.Interface, Attachment: made}, err
}
