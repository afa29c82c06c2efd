package attachment

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// OtherDriverDevice is a device of another DRA driver that a pod has by a claim of its own. The other driver
// publishes it for CNI, with AttributeResourceName and AttributeDeviceID.
type OtherDriverDevice struct {
	// ResourceName and ID are the two attributes.
	ResourceName, ID string
	// Claim is the name of the ResourceClaim. Driver and Device are from the allocation.
	Claim, Driver, Device string
}

func (d OtherDriverDevice) String() string {
	return fmt.Sprintf("%s (device %s of driver %s, by ResourceClaim %s)", d.ID, d.Device, d.Driver, d.Claim)
}

// AssignOtherDevices assigns a device of its pool to each network, and returns the devices in the
// order of the networks. As Multus does, it takes the devices of a pool in the order of their IDs.
// Unlike Multus, it returns an error unless each network gets exactly one device and no device of
// its pool is left.
func AssignOtherDevices(networks []Network, devices []OtherDriverDevice) ([]OtherDriverDevice, error) {
	byPool := map[string][]OtherDriverDevice{}
	for _, d := range devices {
		byPool[d.ResourceName] = append(byPool[d.ResourceName], d)
	}
	users := map[string][]string{}
	for _, n := range networks {
		users[n.ResourceName] = append(users[n.ResourceName], n.Ref.String())
	}
	for _, n := range networks {
		pool := n.ResourceName
		if err := enough(pool, users[pool], byPool[pool]); err != nil {
			return nil, err
		}
		slices.SortFunc(byPool[pool], func(a, b OtherDriverDevice) int { return cmp.Compare(a.ID, b.ID) })
	}
	var out []OtherDriverDevice
	for _, n := range networks {
		out = append(out, byPool[n.ResourceName][0])
		byPool[n.ResourceName] = byPool[n.ResourceName][1:]
	}
	return out, nil
}

// enough returns an error unless one pool has exactly one device for each network.
func enough(pool string, networks []string, devices []OtherDriverDevice) error {
	seen := map[string]bool{}
	var named []string
	for _, d := range devices {
		if seen[d.ID] {
			return reason.Errorf(reason.DeviceMismatch, "resource pool %s: device %s was allocated to the pod twice, and a device serves one network: request another device", pool, d)
		}
		seen[d.ID] = true
		named = append(named, d.String())
	}
	drawing := fmt.Sprintf("%s from resource pool %s", drawn(networks), pool)
	switch {
	case len(devices) == 0:
		return reason.Errorf(reason.DeviceMismatch, "%s, and the pod's claims have no device of it: no allocated device of another driver has the attributes %s=%s and %s: "+
			"request one in a claim of the pod, or request the network's DeviceClass if nadra serves the pool",
			drawing, AttributeResourceName, pool, AttributeDeviceID)
	case len(devices) < len(networks):
		return reason.Errorf(reason.DeviceMismatch, "%s, and the pod's claims have only %s, which another network uses: request %d devices", drawing, strings.Join(named, ", "), len(networks))
	case len(devices) > len(networks):
		return reason.Errorf(reason.DeviceMismatch, "%s, and the pod's claims have %s: it is ambiguous which device is for which network: request as many devices as networks", drawing, strings.Join(named, " and "))
	}
	return nil
}

// drawn returns networks and verb of a sentence about what they draw from.
func drawn(networks []string) string {
	if len(networks) == 1 {
		return "network " + networks[0] + " draws"
	}
	return "networks " + strings.Join(networks, ", ") + " draw"
}
