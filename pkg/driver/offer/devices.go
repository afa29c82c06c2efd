package offer

import (
	"reflect"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// sliceLimit is the API's limit of devices in one ResourceSlice.
const sliceLimit = resourceapi.ResourceSliceMaxDevices

// attrMaster is the attribute with the interface of a place, in the driver's domain.
const attrMaster = "master"

// device describes one device. If the API server knows no shared devices, it stands for a
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
		d.attributes[attrMaster] = String(p.master)
	}
	return d
}

// add lists a network. It returns false if the device has no room.
func (d *device) add(id attachment.NetworkID) bool { return id.AddTo(d.attributes) }

func byName(a, b *device) int { return strings.Compare(a.name, b.name) }

// Options determine how devices are published.
type Options struct {
	// Copies is the number of devices for one that is shared, if Exclusive is set.
	Copies int
	// Exclusive publishes copies, because the API server knows no shared devices.
	Exclusive bool
	// Announce publishes a slice without devices if there are none: Karpenter waits for a slice of the node itself.
	Announce bool
}

// Arrangement is what devices are made from: the networks, and the interfaces and the number of pods of the node.
type Arrangement struct {
	Networks []*Definition
	Links    map[string]Link
	Pods     int64
}

// Offer is what a node, or each node of a profile, offers.
type Offer struct {
	Arrangement
	devices [][]*device
	options Options
}

// Of returns the offer of an arrangement: o itself, which may be nil, if nothing has changed. With
// thousands of networks, making the devices again takes half a second.
func (o *Offer) Of(a Arrangement, options Options) *Offer {
	slices.SortFunc(a.Networks, byID)
	if o != nil && o.options == options && o.Pods == a.Pods && slices.Equal(o.Networks, a.Networks) && reflect.DeepEqual(o.Links, a.Links) {
		return o
	}
	return &Offer{a, arrange(a), options}
}

// Same reports whether two offers have the same devices. o may be nil.
func (o *Offer) Same(other *Offer) bool {
	return o == other || o != nil && o.options == other.options && reflect.DeepEqual(o.devices, other.devices)
}

// Slices returns the devices of each slice.
func (o *Offer) Slices() [][]resourceapi.Device {
	var out [][]resourceapi.Device
	for _, devices := range o.devices {
		var made []resourceapi.Device
		for _, d := range devices {
			made = append(made, d.publishedAs(o.options)...)
		}
		out = slices.AppendSeq(out, slices.Chunk(made, sliceLimit))
	}
	if len(out) == 0 && o.options.Announce {
		return [][]resourceapi.Device{nil}
	}
	return out
}

// publishedAs makes the API's devices: one for many claims (KEP-5075), or copies. From a limited range each
// claim takes one address.
func (d *device) publishedAs(o Options) []resourceapi.Device {
	if !o.Exclusive {
		one := resourceapi.Device{Name: d.name, Attributes: d.attributes, AllowMultipleAllocations: ptr.To(true)}
		if d.addresses != nil {
			one.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{attachment.CapacityAddresses: OneEach(*d.addresses)}
		}
		return []resourceapi.Device{one}
	}
	copies := int64(o.Copies)
	if d.addresses != nil {
		copies = min(copies, *d.addresses)
	}
	var out []resourceapi.Device
	for i := range copies {
		out = append(out, resourceapi.Device{Name: IndexedName(d.name, int(i)), Attributes: d.attributes})
	}
	return out
}
