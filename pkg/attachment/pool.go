package attachment

import "strings"

// capacityDomains are the domains of resources without devices: ovs-cni's and bridge-marker's
// markers write one for each bridge into the node's status.
var capacityDomains = []string{"ovs-cni.network.kubevirt.io", "bridge.network.kubevirt.io"}

// PoolOf returns the resource pool from which a NetworkAttachmentDefinition with these annotations
// draws, or "". A resource without devices is not a pool: the network is attached without a device,
// and a pod's limit still keeps the pod on nodes that have the resource.
func PoolOf(annotations map[string]string) string {
	name := annotations[ResourceNameAnnotation]
	if isNodeCapacity(name) {
		return ""
	}
	return name
}

// isNodeCapacity reports whether a resource is a capacity of nodes without devices.
func isNodeCapacity(resourceName string) bool {
	for _, domain := range capacityDomains {
		if strings.HasPrefix(resourceName, domain+"/") {
			return true
		}
	}
	return false
}
