package publish

import (
	"reflect"
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

// attrMaster is the attribute with the interface of a place, in the driver's domain.
const attrMaster = "master"

// device describes one device of this node. If the API server knows no shared devices, it stands for a
// number of copies.
type device struct {
	name string
	// attributes list the networks, and align the device with others.
	attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute
	// addresses is the number of attachments that the only network of the device has addresses for, or
	// nil if nothing limits them.
	addresses *int64
}

// newDevice returns a device of a place that lists no network yet.
func newDevice(name string, p place) *device {
	d := &device{name: name, attributes: map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{}}
	for attribute, value := range p.pci {
		d.attributes[attribute] = value
	}
	if p.master != "" {
		d.attributes[attrMaster] = slicewriter.String(p.master)
	}
	return d
}

// add lists a network. It returns false if the device has no room.
func (d *device) add(id attachment.NetworkID) bool { return id.AddTo(d.attributes) }

func byName(a, b *device) int { return strings.Compare(a.name, b.name) }

// deviceOptions determine how devices are published.
type deviceOptions struct {
	// copies is the number of devices for one that is shared, if exclusive is set.
	copies int
	// exclusive publishes copies, because the API server knows no shared devices.
	exclusive bool
}

// arrangement is what devices are made from.
type arrangement struct {
	networks []*definition
	links    map[string]Link
	pods     int64
}

// publication is what a node publishes.
type publication struct {
	arrangement
	devices [][]*device
	options deviceOptions
}

// of returns the publication of an arrangement: p itself, which may be nil, if nothing has changed. With
// thousands of networks, making the devices again takes half a second.
func (p *publication) of(a arrangement, options deviceOptions) *publication {
	slices.SortFunc(a.networks, byID)
	if p != nil && p.options == options && p.pods == a.pods && slices.Equal(p.networks, a.networks) && reflect.DeepEqual(p.links, a.links) {
		return p
	}
	return &publication{a, arrange(a), options}
}

// same reports whether two publications have the same devices.
func (p *publication) same(other *publication) bool {
	return p == other || p != nil && p.options == other.options && reflect.DeepEqual(p.devices, other.devices)
}

// pool makes the slices of a publication.
func (p *publication) pool() resourceslice.Pool {
	var pool resourceslice.Pool
	for _, devices := range p.devices {
		var made []resourceapi.Device
		for _, d := range devices {
			made = append(made, d.publishedAs(p.options)...)
		}
		for part := range slices.Chunk(made, sliceLimit) {
			pool.Slices = append(pool.Slices, resourceslice.Slice{Devices: part})
		}
	}
	return pool
}

// publishedAs makes the API's devices: one for many claims (KEP-5075), or copies. From a limited range each
// claim takes one address.
func (d *device) publishedAs(o deviceOptions) []resourceapi.Device {
	if !o.exclusive {
		one := resourceapi.Device{Name: d.name, Attributes: d.attributes, AllowMultipleAllocations: ptr.To(true)}
		if d.addresses != nil {
			one.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{attachment.CapacityAddresses: slicewriter.OneEach(*d.addresses)}
		}
		return []resourceapi.Device{one}
	}
	copies := int64(o.copies)
	if d.addresses != nil {
		copies = min(copies, *d.addresses)
	}
	var out []resourceapi.Device
	for i := range copies {
		out = append(out, resourceapi.Device{Name: slicewriter.IndexedName(d.name, int(i)), Attributes: d.attributes})
	}
	return out
}
