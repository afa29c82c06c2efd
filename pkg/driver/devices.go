package driver

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/api/equality"
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

// networkDevices are the devices of one network, and what they were made from.
type networkDevices struct {
	devices []resourceapi.Device // these do not change
	of      *definition
	pci     pciAttributes
	options deviceOptions
}

// deviceMaker remembers the devices of each network.
type deviceMaker struct {
	known map[attachment.NetworkRef]*networkDevices
}

// make makes the devices of all usable networks, sorted by name, so that the
// same input gives the same slices. Devices that come out as they were are the
// very same: whether there is something to publish is told by their addresses.
func (m *deviceMaker) make(candidates map[attachment.NetworkRef]candidate, links map[string]link, o deviceOptions) []*networkDevices {
	known := make(map[attachment.NetworkRef]*networkDevices, len(candidates))
	out := make([]*networkDevices, 0, len(candidates))
	for ref, c := range candidates {
		if c.unusable != nil {
			continue
		}
		made, pci := m.known[ref], pciOf(c.network, links)
		if made == nil || made.of != c.definition || made.options != o || !reflect.DeepEqual(made.pci, pci) {
			renewed := &networkDevices{of: c.definition, pci: pci, options: o, devices: devicesOf(c.definition, pci, o)}
			if made != nil && equality.Semantic.DeepEqual(made.devices, renewed.devices) {
				made.of, made.pci, made.options = renewed.of, renewed.pci, renewed.options
			} else {
				made = renewed
			}
		}
		known[ref] = made
		out = append(out, made)
	}
	m.known = known
	slices.SortFunc(out, func(a, b *networkDevices) int { return strings.Compare(a.of.device, b.of.device) })
	return out
}

// allDevices lists the devices of networks, in the order of their names.
func allDevices(networks []*networkDevices) []resourceapi.Device {
	devices := make([]resourceapi.Device, 0, len(networks))
	for _, n := range networks {
		devices = append(devices, n.devices...)
	}
	slices.SortFunc(devices, func(a, b resourceapi.Device) int { return strings.Compare(a.Name, b.Name) })
	return devices
}

// devicesOf makes the devices of one network.
func devicesOf(d *definition, pci pciAttributes, o deviceOptions) []resourceapi.Device {
	if !o.exclusive {
		return []resourceapi.Device{sharedDevice(d, pci, o)}
	}
	var out []resourceapi.Device
	for i := range o.copies {
		one := resourceapi.Device{Name: indexedName(d.device, i), Attributes: attributes(d.network, pci)}
		one.Attributes[attrInstance] = intAttr(int64(i))
		out = append(out, one)
	}
	return out
}

// sharedDevice is a network as one device for many claims (KEP-5075). Each
// takes one attachment and, from a host-local range, one address.
func sharedDevice(d *definition, pci pciAttributes, o deviceOptions) resourceapi.Device {
	one := resourceapi.Device{
		Name:                     d.device,
		Attributes:               attributes(d.network, pci),
		AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			capAttachments: oneEach(o.attachments),
		},
	}
	if addresses, ok := addressCount(d.network); ok {
		one.Capacity[capAddresses] = oneEach(addresses)
	}
	return one
}

// oneEach is a capacity of which every allocation takes exactly one: without a
// default the first claim would take all of it.
func oneEach(total int64) resourceapi.DeviceCapacity {
	return resourceapi.DeviceCapacity{Value: *resource.NewQuantity(total, resource.DecimalSI), RequestPolicy: takesOne}
}

// takesOne is one for all devices, of which there may be thousands. A parsed
// quantity has its text already, and nobody writes to it any more.
var takesOne = func() *resourceapi.CapacityRequestPolicy {
	one := resource.MustParse("1")
	return &resourceapi.CapacityRequestPolicy{Default: &one, ValidValues: []resource.Quantity{one}}
}()

// copyName is the name of one of the copies of a network's device.
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
