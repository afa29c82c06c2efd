package attachment

import "strings"

// capacityDomains are the domains of resources by which a node only says what it
// has: ovs-cni's and bridge-marker's markers write them into the node's status,
// one for each bridge. There are no devices behind them.
var capacityDomains = []string{"ovs-cni.network.kubevirt.io", "bridge.network.kubevirt.io"}

// PoolOf returns the device pool that a NetworkAttachmentDefinition with these
// annotations draws from, and "" if it draws from none. A resource without
// devices is no pool: the network is attached without a device, and a pod's own
// limit goes on keeping it on nodes that have the resource.
func PoolOf(annotations map[string]string) string {
	name := annotations[ResourceNameAnnotation]
	if IsNodeCapacity(name) {
		return ""
	}
	return name
}

// IsNodeCapacity reports whether a resource is a capacity of nodes, without
// devices.
func IsNodeCapacity(resourceName string) bool {
	for _, domain := range capacityDomains {
		if strings.HasPrefix(resourceName, domain+"/") {
			return true
		}
	}
	return false
}
