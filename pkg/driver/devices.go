package driver

import (
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

const (
	// sliceLimit is the API's limit of devices in one ResourceSlice.
	sliceLimit = resourceapi.ResourceSliceMaxDevices
	// maxAttribute is the API's limit for a string attribute, in bytes.
	maxAttribute = resourceapi.DeviceAttributeMaxValueLength
)

// Names of the attributes and capacities of a network device, in the driver's
// domain.
const (
	attrNamespace = "nadNamespace"
	attrName      = "nadName"
	attrHash      = "nadHash" // of namespace/name; selects where nadName had to be cut
	attrPlugin    = "pluginType"
	attrIPAM      = "ipamType"
	attrMaster    = "master"
	attrMode      = "mode"
	attrVLAN      = "vlan"
	attrSubnet    = "subnet"
	attrInstance  = "instance" // which of the copies, where devices cannot be shared

	capAttachments = "attachments"
	capAddresses   = "addresses"
)

// deviceOptions say how networks become devices.
type deviceOptions struct {
	// attachments is the number of attachments that one network takes on a node.
	attachments int64
	// copies is how many devices stand for a network where exclusive is set.
	copies int
	// exclusive publishes copies, as the API server knows no shared devices.
	exclusive bool
}

// devicesFor makes the devices of all usable networks, sorted by name, so that
// the same input gives the same slices.
func devicesFor(candidates map[attachment.NetworkRef]candidate, links map[string]link, o deviceOptions) []resourceapi.Device {
	devices := []resourceapi.Device{}
	for _, c := range candidates {
		if c.unusable != nil {
			continue
		}
		if !o.exclusive {
			devices = append(devices, sharedDevice(c.network, links, o))
			continue
		}
		for i := range o.copies {
			d := resourceapi.Device{Name: copyName(c.network.Ref, i), Attributes: attributes(c.network, links)}
			d.Attributes[attrInstance] = intAttr(int64(i))
			devices = append(devices, d)
		}
	}
	slices.SortFunc(devices, func(a, b resourceapi.Device) int { return strings.Compare(a.Name, b.Name) })
	return devices
}

// sharedDevice is a network as one device for many claims (KEP-5075). Each
// takes one attachment and, from a host-local range, one address.
func sharedDevice(n attachment.Network, links map[string]link, o deviceOptions) resourceapi.Device {
	d := resourceapi.Device{
		Name:                     attachment.DeviceName(n.Ref),
		Attributes:               attributes(n, links),
		AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			capAttachments: oneEach(o.attachments),
		},
	}
	if addresses, ok := addressCount(n); ok {
		d.Capacity[capAddresses] = oneEach(addresses)
	}
	return d
}

// oneEach is a capacity of which every allocation takes exactly one: without a
// default the first claim would take all of it.
func oneEach(total int64) resourceapi.DeviceCapacity {
	one := *resource.NewQuantity(1, resource.DecimalSI)
	return resourceapi.DeviceCapacity{
		Value:         *resource.NewQuantity(total, resource.DecimalSI),
		RequestPolicy: &resourceapi.CapacityRequestPolicy{Default: &one, ValidValues: []resource.Quantity{one}},
	}
}

// deviceNames lists every name that a network's device may have, so that a
// claim is understood whichever way its device was published.
func deviceNames(candidates map[attachment.NetworkRef]candidate, copies int) map[string]attachment.NetworkRef {
	out := map[string]attachment.NetworkRef{}
	for ref := range candidates {
		out[attachment.DeviceName(ref)] = ref
		for i := range copies {
			out[copyName(ref, i)] = ref
		}
	}
	return out
}

// copyName names one of several devices for a network.
func copyName(ref attachment.NetworkRef, i int) string {
	return indexedName(attachment.DeviceName(ref), i)
}

// indexedName adds a number to a device's name. A shorter base keeps it a DNS
// label.
func indexedName(base string, i int) string {
	const maxLabel = 63
	suffix := fmt.Sprintf("-%d", i)
	if over := len(base) + len(suffix) - maxLabel; over > 0 {
		base = base[over:] // the hash is at the end
	}
	return strings.TrimLeft(base, "-") + suffix
}

// poolOf cuts the devices into slices. There is at least one, also without
// devices: it says that the driver is there.
func poolOf(devices []resourceapi.Device) resourceslice.Pool {
	var pool resourceslice.Pool
	for part := range slices.Chunk(devices, sliceLimit) {
		pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
	}
	if len(pool.Slices) == 0 {
		pool.Slices = []resourceslice.Slice{{}}
	}
	return pool
}
