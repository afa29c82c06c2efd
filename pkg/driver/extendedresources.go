package driver

import (
	"context"
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// pairExtended pairs the devices that a pod has requested as extended resources with the
// networks of its annotation that draw from their pools (behaviour B9). If a pod has networks
// by claims, it has all its networks by claims, and its other devices have no network.
func (p *planner) pairExtended(ctx context.Context, requests []request) ([]request, error) {
	if !slices.ContainsFunc(requests, func(r request) bool { return r.extended }) ||
		slices.ContainsFunc(requests, func(r request) bool { return !r.DeviceOnly() }) {
		return requests, nil
	}
	pod := requests[0].pod
	selections, err := p.annotated(ctx, pod)
	if err != nil || len(selections) == 0 {
		return requests, err
	}
	var networks []attachment.Network
	for _, s := range selections {
		n, err := p.networks.Usable(s.Network)
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
		if device, ok := p.devices.Lookup(r.Pool, r.Device); r.extended && ok {
			free[i] = device.Pool.ResourceName
		}
	}
	devices, err := attachment.Pair(networks, free)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod, err)
	}
	return paired(requests, selections, devices), nil
}

// paired returns the requests with the networks first, in the order of the annotation.
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

// annotated returns the networks of a pod's annotation. If the driver's watch has not seen
// the pod yet, it asks the API server.
func (p *planner) annotated(ctx context.Context, pod attachment.PodRef) ([]attachment.Selection, error) {
	meta := p.watch.Find(pod)
	if meta == nil {
		var err error
		if meta, err = readPod(ctx, p.clients.Metadata, pod); err != nil {
			return nil, reason.Errorf(reason.PodNotRead, "reading pod %s for its networks: %w", pod, err)
		}
	}
	selections, err := attachment.ParseSelections(p.cfg.networksText(meta.Annotations), pod.Namespace)
	if err != nil {
		return nil, fmt.Errorf("pod %s: %w", pod, err)
	}
	for _, s := range selections {
		if err := p.cfg.Isolation.Allow(pod.Namespace, s.Network); err != nil {
			return nil, err
		}
	}
	return selections, nil
}
