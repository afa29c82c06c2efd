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

// offer is all that the devices of one network are made from. It does not
// change. The devices themselves are made when there is something to publish:
// thousands of them are not kept here as well as in the slices' own cache.
type offer struct {
	*definition
	pci     pciAttributes
	options deviceOptions
}

// offers remembers those of each network.
type offers struct {
	known map[attachment.NetworkRef]remembered
}

// remembered is the latest offer of a network, and the first that had the same
// devices.
type remembered struct{ latest, first *offer }

// of returns the offers of all usable networks, sorted by the names of their
// devices, so that the same input gives the same slices. What comes to the same
// devices is the very same offer: whether there is something to publish is told
// by addresses.
func (o *offers) of(candidates map[attachment.NetworkRef]candidate, links map[string]link, options deviceOptions) []*offer {
	known := make(map[attachment.NetworkRef]remembered, len(candidates))
	out := make([]*offer, 0, len(candidates))
	for ref, c := range candidates {
		if c.unusable != nil {
			continue
		}
		r, pci := o.known[ref], pciOf(c.network, links)
		if l := r.latest; l == nil || l.definition != c.definition || l.options != options || !reflect.DeepEqual(l.pci, pci) {
			r.latest = &offer{definition: c.definition, pci: pci, options: options}
			if r.first == nil || !equality.Semantic.DeepEqual(r.first.devices(), r.latest.devices()) {
				r.first = r.latest
			}
		}
		known[ref] = r
		out = append(out, r.first)
	}
	o.known = known
	slices.SortFunc(out, func(a, b *offer) int { return strings.Compare(a.device, b.device) })
	return out
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
		one := resourceapi.Device{Name: indexedName(o.device, i), Attributes: attributes(o.network, o.pci)}
		one.Attributes[attrInstance] = intAttr(int64(i))
		out = append(out, one)
	}
	return out
}

// shared is a network as one device for many claims (KEP-5075). Each
// takes one attachment and, from a host-local range, one address.
func (o *offer) shared() resourceapi.Device {
	one := resourceapi.Device{
		Name:                     o.device,
		Attributes:               attributes(o.network, o.pci),
		AllowMultipleAllocations: ptr.To(true),
		Capacity: map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{
			capAttachments: oneEach(o.options.attachments),
		},
	}
	if addresses, ok := addressCount(o.network); ok {
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
