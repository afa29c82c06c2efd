package driver

import (
	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// hardwareSliceLimit is the API's limit of devices in a slice of which one has
// a taint. It holds for all, as a link that goes down must move no device.
const hardwareSliceLimit = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// Names of a hardware device's attributes. Those without a domain are in the
// driver's; the others are what Multus, KubeVirt and other drivers know.
const (
	attrResourceName = attachment.AttributeResourceName
	attrDeviceID     = attachment.AttributeDeviceID

	attrKind       = "kind" // nic, pf, vf, sf
	attrPFName     = "pfName"
	attrPFAddress  = "pfPCIAddress"
	attrVFIndex    = "vfIndex"
	attrSFIndex    = "sfIndex"
	attrVendor     = "vendor"
	attrDeviceCode = "deviceCode"
	attrDriver     = "driver"
	attrLinkType   = "linkType"
	attrRDMA       = "rdma"
	attrRDMAMode   = "rdmaMode"
	attrVFIO       = "vfioBound"
	attrEswitch    = "eswitchMode"
	attrVDPA       = "vdpa"

	// capShares are those of a shared device.
	capShares = "shares"
	// taintLinkDown is a taint's name in the driver's domain.
	taintLinkDown = "link-down"
)

// hardwareOptions say how hardware becomes devices.
type hardwareOptions struct {
	driver string
	// copies is how many devices stand for a shared one where exclusive is set.
	copies int
	// exclusive publishes copies, as the API server knows no shared devices.
	exclusive bool
	// noTaints withdraws devices instead of tainting them, as the API server
	// knows no taints.
	noTaints bool
}

// hardwareSlices cuts devices, in the order of hardwareDevices, into the slices
// of their DRA pools. A device's slice depends on the functions of its PF that
// belong to pools, not on which are withheld.
func hardwareSlices(devices []hardwareDevice, o hardwareOptions) map[string]resourceslice.Pool {
	out := map[string]resourceslice.Pool{}
	var last *hardwareDevice
	room := 0
	for i := range devices {
		d := &devices[i]
		pool := out[d.DRAPool]
		made := publishedAs(d, o)
		size := max(1, len(made))
		if last == nil || last.DRAPool != d.DRAPool || last.slot() != d.slot() || room < size {
			pool.Slices = append(pool.Slices, resourceslice.Slice{})
			room = hardwareSliceLimit
		}
		at := &pool.Slices[len(pool.Slices)-1]
		at.Devices = append(at.Devices, made...)
		room -= size
		last, out[d.DRAPool] = d, pool
	}
	return out
}

// publishedAs are the API's devices for one: none where it is withheld, and
// several for a shared one that cannot be.
func publishedAs(d *hardwareDevice, o hardwareOptions) []resourceapi.Device {
	if d.Withheld != "" {
		return nil
	}
	out := resourceapi.Device{Name: d.Name, Attributes: hardwareAttributes(d)}
	if !d.shared() {
		if linkDown(d.function()) != "" {
			if o.noTaints {
				return nil
			}
			out.Taints = []resourceapi.DeviceTaint{{Key: o.driver + "/" + taintLinkDown, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
		}
		return []resourceapi.Device{out}
	}
	if !o.exclusive {
		out.AllowMultipleAllocations = ptr.To(true)
		out.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{capShares: oneEach(d.Pool.Share)}
		return []resourceapi.Device{out}
	}
	var all []resourceapi.Device
	for i := range min(d.Pool.Share, int64(o.copies), hardwareSliceLimit) {
		one := *out.DeepCopy()
		one.Name = indexedName(d.Name, int(i))
		one.Attributes[attrInstance] = intAttr(i)
		all = append(all, one)
	}
	return all
}

// hardwareAttributes are what a claim can select a device by. They hold for as
// long as the function is what it is: nothing is told that changes when a pod
// gets it, as every start of a pod would write a slice.
func hardwareAttributes(d *hardwareDevice) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		attrResourceName: strAttr(d.Pool.ResourceName),
		// The scheduler gives up where an expression reads what a device has not,
		// and those that select a network by its name are evaluated for these
		// devices, too.
		attrNamespace: strAttr(""), attrName: strAttr(""),
	}
	if len(d.Functions) > 1 { // what holds for one does not for all
		out[attrRDMA] = boolAttr(true)
		return out
	}
	f := d.function()
	text := func(name resourceapi.QualifiedName, value string) {
		if value != "" {
			out[name] = strAttr(value)
		}
	}
	text(attrDeviceID, f.ID)
	text(deviceattribute.StandardDeviceAttributePCIBusID, f.PCIAddress)
	text(deviceattribute.StandardDeviceAttributePCIeRoot, f.PCIeRoot)
	if f.NUMANode >= 0 && !d.Pool.ExcludeTopology {
		out[deviceattribute.StandardDeviceAttributeNUMANode] = intAttr(int64(f.NUMANode))
	}
	text(attrKind, string(f.Kind))
	text(attrPFName, f.PFName())
	text(attrPFAddress, f.PFAddress())
	text(attrVendor, f.Vendor)
	text(attrDeviceCode, f.Device)
	text(attrDriver, f.Driver)
	text(attrLinkType, f.LinkType)
	text(attrEswitch, f.EswitchMode)
	out[attrRDMA], out[attrVFIO] = boolAttr(f.RDMACapable), boolAttr(f.VFIOBound())
	if f.RDMACapable {
		text(attrRDMAMode, d.RDMAMode)
	}
	if f.VDPA != nil {
		text(attrVDPA, f.VDPA.Driver)
	}
	indexes := map[inventory.Kind]resourceapi.QualifiedName{inventory.KindVF: attrVFIndex, inventory.KindSF: attrSFIndex}
	if name, ok := indexes[f.Kind]; ok && f.Index >= 0 {
		out[name] = intAttr(int64(f.Index))
	}
	return out
}

func boolAttr(b bool) resourceapi.DeviceAttribute { return resourceapi.DeviceAttribute{BoolValue: &b} }
