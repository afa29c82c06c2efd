package attachment

import (
	"fmt"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// AssignPluginDevices assigns a device that device plugins have given to the pod to each network that
// draws from a resource pool, and returns the IDs in the order of the networks, "" for networks that
// draw from none. devices has the IDs by resource, in order. As Multus does, it takes the devices of a
// pool in that order, and leaves those to the containers that no network needs. Unlike Multus, it
// returns an error if there are too few.
func AssignPluginDevices(networks []Network, devices map[string][]string) ([]string, error) {
	drawing := map[string][]string{}
	for _, n := range networks {
		drawing[n.ResourceName] = append(drawing[n.ResourceName], n.Ref.String())
	}
	out := make([]string, len(networks))
	next := map[string]int{}
	for i, n := range networks {
		if n.ResourceName == "" {
			continue
		}
		ids := devices[n.ResourceName]
		if len(ids) < len(drawing[n.ResourceName]) {
			return nil, reason.Errorf(reason.NoClaim, "%s from resource pool %s, and the pod has no claim and %s: "+
				"request the resource in limits of a container if a device plugin serves it on the node; "+
				"or let the scheduler place the pod (no spec.nodeName, and no static pod), so that nadra's webhook gives it a claim",
				drawn(drawing[n.ResourceName]), n.ResourceName, ofPlugins(len(ids)))
		}
		out[i] = ids[next[n.ResourceName]]
		next[n.ResourceName]++
	}
	return out, nil
}

// ofPlugins returns how many devices a pod has, for a message.
func ofPlugins(count int) string {
	switch count {
	case 0:
		return "no device of a device plugin"
	case 1:
		return "only one device of a device plugin"
	}
	return fmt.Sprintf("only %d devices of a device plugin", count)
}
