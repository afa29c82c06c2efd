package publish

import (
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
)

// sliceLimit is the API's limit of devices in one ResourceSlice.
const sliceLimit = resourceapi.ResourceSliceMaxDevices

// Names of the attributes and capacities of a network device, in the driver's domain.
const (
	attrNamespace = slicewriter.AttrNamespace
	attrName      = slicewriter.AttrName
	attrInstance  = slicewriter.AttrInstance
	attrHash      = "nadHash" // of namespace/name; selects if nadName had to be truncated
	attrPlugin    = "pluginType"
	attrIPAM      = "ipamType"
	attrMaster    = "master"
	attrMode      = "mode"
	attrVLAN      = "vlan"
	attrSubnet    = "subnet"

	capAttachments = "attachments"
	capAddresses   = "addresses"
)

// deviceOptions determine how networks become devices.
type deviceOptions struct {
	// attachments is the number of attachments that one network takes on a node.
	attachments int64
	// copies is the number of devices for a network if exclusive is set.
	copies int
	// exclusive publishes copies, because the API server knows no shared devices.
	exclusive bool
}

// devicesOf makes the devices of all offers, sorted by name.
func devicesOf(all []*offer) []resourceapi.Device {
	devices := make([]resourceapi.Device, 0, len(all))
	for _, o := range all {
		devices = append(devices, o.devices()...)
	}
	slices.SortFunc(devices, func(a, b resourceapi.Device) int { return strings.Compare(a.Name, b.Name) })
	return devices
}

// devices makes the devices of one network.
func (o *offer) devices() []resourceapi.Device {
	if !o.options.exclusive {
		return []resourceapi.Device{o.shared()}
	}
	var out []resourceapi.Device
	for i := range o.options.copies {
		one := resourceapi.Device{Name: slicewriter.IndexedName(o.device, i), Attributes: attributes(o.network, o.pci)}
		one.Attributes[attrInstance] = slicewriter.Int(int64(i))
		out = append(out, one)
	}
	return out
}

// shared makes one device for many claims (KEP-5075). Each claim takes one attachment and,
// from a host-local range, one address.
func (o *offer) shared() resourceapi.Device {
	one := resourceapi.Device{
		Name:                     o.device,
		Attributes:               attributes(o.network, o.pci),
		AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			capAttachments: slicewriter.OneEach(o.options.attachments),
		},
	}
	if addresses, ok := addressCount(o.network); ok {
		one.Capacity[capAddresses] = slicewriter.OneEach(addresses)
	}
	return one
}

// copyName returns the name of one of the copies of a network's device.
func copyName(ref attachment.NetworkRef, i int) string {
	return slicewriter.IndexedName(attachment.DeviceName(ref), i)
}

// poolOf divides the devices into slices. It returns at least one slice, even without
// devices: the slice shows that the driver runs.
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
