package hwdevices

import (
	"maps"
	"slices"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/deviceattribute"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/offer"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// sliceLimit is the API's limit of devices in a slice with a tainted device. It applies to
// all slices, because a link that goes down must not move a device to another slice.
const sliceLimit = resourceapi.ResourceSliceMaxDevicesWithAdvancedFeatures

// Names of a device's attributes. Those without a domain are in the driver's.
// KubeVirt, Multus' main and other drivers know the others.
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
	// attrDRANetNUMA is the name of the NUMA node that drivers of CPUs and networks published before Kubernetes 1.37
	// had one.
	attrDRANetNUMA = "dra.net/numaNode"

	// capShares is the capacity of a shared device.
	capShares = "shares"
	// taintLinkDown is a taint's name in the driver's domain.
	taintLinkDown = "link-down"
)

// sliceOptions determine how devices become slices.
type sliceOptions struct {
	// copies is the number of devices for a shared one if exclusive is set.
	copies int
	// exclusive publishes copies, because the API server knows no shared devices.
	exclusive bool
	// noTaints withholds devices instead of tainting them, because the API server knows no
	// taints.
	noTaints bool
}

// slicesOf divides devices, in the order of devicesOf, into the slices of their DRA pools. A
// device's slice depends on the functions of its PF that belong to pools, not on which of
// them are withheld. A pool of which all are withheld has no slice.
func slicesOf(devices []Device, o sliceOptions) map[string]resourceslice.Pool {
	out := map[string]resourceslice.Pool{}
	var last *Device
	room := 0
	for i := range devices {
		d := &devices[i]
		pool := out[d.DRAPool]
		made := publishedAs(d, o)
		size := max(1, len(made))
		if last == nil || last.DRAPool != d.DRAPool || last.slot() != d.slot() || room < size {
			pool.Slices = append(pool.Slices, resourceslice.Slice{})
			room = sliceLimit
		}
		at := &pool.Slices[len(pool.Slices)-1]
		at.Devices = append(at.Devices, made...)
		room -= size
		last, out[d.DRAPool] = d, pool
	}
	maps.DeleteFunc(out, func(_ string, p resourceslice.Pool) bool {
		return !slices.ContainsFunc(p.Slices, func(s resourceslice.Slice) bool { return len(s.Devices) > 0 })
	})
	return out
}

// publishedAs returns the API's devices for one device of a node of nadra's: none if it is
// withheld, and several for a shared one if the API server knows no shared devices.
func publishedAs(d *Device, o sliceOptions) []resourceapi.Device {
	withheld := decide(d, true)
	tainted := reason.Of(withheld) == reason.LinkDown && !o.noTaints
	if withheld != nil && !tainted {
		return nil
	}
	out := resourceapi.Device{Name: d.Name, Attributes: attributesOf(d)}
	if tainted {
		out.Taints = []resourceapi.DeviceTaint{{Key: v1alpha1.DriverName + "/" + taintLinkDown, Effect: resourceapi.DeviceTaintEffectNoSchedule}}
	}
	if !d.IsShared() {
		return []resourceapi.Device{out}
	}
	if !o.exclusive {
		out.AllowMultipleAllocations = ptr.To(true)
		out.Capacity = map[resourceapi.QualifiedName]resourceapi.DeviceCapacity{capShares: offer.OneEach(d.Pool.Share)}
		return []resourceapi.Device{out}
	}
	var all []resourceapi.Device
	for i := range min(d.Pool.Share, int64(o.copies), sliceLimit) {
		one := *out.DeepCopy()
		one.Name = offer.IndexedName(d.Name, int(i))
		one.Attributes[offer.AttrInstance] = offer.Int(i)
		all = append(all, one)
	}
	return all
}

// attributesOf returns the attributes by which claims select a device. It leaves out what
// changes when a pod gets the device, because every start of a pod would write a slice.
func attributesOf(d *Device) map[resourceapi.QualifiedName]resourceapi.DeviceAttribute {
	out := map[resourceapi.QualifiedName]resourceapi.DeviceAttribute{
		attrResourceName: offer.String(d.Pool.ResourceName),
	}
	if len(d.Functions) > 1 { // their attributes differ
		out[attrRDMA] = offer.Bool(true)
		return out
	}
	f := d.Function()
	text := func(name resourceapi.QualifiedName, value string) {
		if value != "" {
			out[name] = offer.String(value)
		}
	}
	text(attrDeviceID, f.ID)
	text(deviceattribute.StandardDeviceAttributePCIBusID, f.PCIAddress)
	text(deviceattribute.StandardDeviceAttributePCIeRoot, f.PCIeRoot)
	if f.NUMANode >= 0 && !d.Pool.ExcludeTopology {
		out[deviceattribute.StandardDeviceAttributeNUMANode] = offer.Int(int64(f.NUMANode))
		out[attrDRANetNUMA] = offer.Int(int64(f.NUMANode))
	}
	text(attrKind, string(f.Kind))
	text(attrPFName, f.PFName())
	text(attrPFAddress, f.PFAddress())
	text(attrVendor, f.Vendor)
	text(attrDeviceCode, f.Device)
	text(attrDriver, f.Driver)
	text(attrLinkType, f.LinkType)
	text(attrEswitch, f.EswitchMode)
	out[attrRDMA], out[attrVFIO] = offer.Bool(f.RDMACapable), offer.Bool(f.VFIOBound())
	if f.RDMACapable {
		text(attrRDMAMode, d.RDMAMode)
	}
	if f.VDPA != nil {
		text(attrVDPA, f.VDPA.Driver)
	}
	indexes := map[inventory.Kind]resourceapi.QualifiedName{inventory.KindVF: attrVFIndex, inventory.KindSF: attrSFIndex}
	if name, ok := indexes[f.Kind]; ok && f.Index >= 0 {
		out[name] = offer.Int(int64(f.Index))
	}
	return out
}
