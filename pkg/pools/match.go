package pools

import (
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/inventory"
)

// offered reports whether a pool of the type may have the function at all, by the device
// plugins' rules: a driver must be bound to it, it must not be a physical function with
// virtual ones, and the host's default route must not use it.
func offered(t DeviceType, f *inventory.Function) bool {
	if f.Driver == "" {
		return false
	}
	switch t {
	case NetDevice:
		return f.Kind != inventory.KindSF && f.IsNetwork() && !f.Uplink && f.NumVFs == 0
	case AuxNetDevice:
		return f.Kind == inventory.KindSF && f.IsNetwork() && !f.Uplink
	case Accelerator:
		return f.Kind != inventory.KindSF && f.IsAccelerator()
	case SharedRDMA: // the host keeps a shared device
		return f.Kind != inventory.KindSF && f.IsNetwork() && hasSharedFiles(f)
	}
	return false
}

// hasSharedFiles reports whether the function has the files that the RDMA shared device
// plugin requires.
func hasSharedFiles(f *inventory.Function) bool {
	for _, want := range []string{"rdma_cm", "umad", "uverbs"} {
		if !slices.ContainsFunc(f.RDMA, func(d inventory.RDMA) bool {
			return slices.ContainsFunc(d.CharDevices, func(file string) bool { return strings.Contains(file, want) })
		}) {
			return false
		}
	}
	return true
}

// Matches reports whether the selector selects the function.
func (s *Selector) Matches(f *inventory.Function) bool {
	return in(s.Vendors, f.Vendor) &&
		in(s.Devices, f.Device) &&
		in(s.Drivers, f.Driver) &&
		in(s.PCIAddresses, f.PCIAddress) &&
		in(s.ACPIIndexes, f.ACPIIndex) &&
		s.matchesPF(f) &&
		in(s.LinkTypes, f.LinkType) &&
		in(s.DDPProfiles, f.DDPProfile) &&
		(len(s.PKeys) == 0 || f.PKey != "" && in(s.PKeys, f.PKey)) &&
		(len(s.IfNames) == 0 || slices.ContainsFunc(f.Netdevs, func(n inventory.Netdev) bool { return in(s.IfNames, n.Name) })) &&
		(!s.IsRDMA || f.RDMACapable) &&
		s.matchesVDPA(f)
}

// matchesPF reports whether the function's PF is selected. No list of PFs selects a function
// without a PF, as in the device plugin; a PF has none either.
func (s *Selector) matchesPF(f *inventory.Function) bool {
	if s.NoPF && f.Kind == inventory.KindPF {
		return false
	}
	device := f.Device
	if f.PF != nil {
		device = f.PF.Device
	}
	if !in(s.PFDevices, device) {
		return false
	}
	names := []string{f.PFName()}
	if s.AltNames && f.PF != nil {
		names = append(names, f.PF.AltNames...)
	}
	return inRanges(s.PFNames, names, f.Index) && inRanges(s.RootDevices, []string{f.PFAddress()}, f.Index)
}

// matchesVDPA reports whether the function has a vDPA device of the requested type.
func (s *Selector) matchesVDPA(f *inventory.Function) bool {
	drivers := map[string]string{"virtio": "virtio_vdpa", "vhost": "vhost_vdpa"}
	return s.VDPAType == "" || f.VDPA != nil && f.VDPA.Driver == drivers[s.VDPAType]
}

// in reports whether a list contains the value or is empty.
func in(list []string, value string) bool {
	return len(list) == 0 || slices.Contains(list, value)
}

// inRanges reports whether an item of the list selects the function with this index of a PF
// with these names, or the list is empty. Only the first item for a PF counts. Names match
// in any case.
func inRanges(list, names []string, index int) bool {
	if len(list) == 0 {
		return true
	}
	for _, item := range list {
		name, _, _ := strings.Cut(item, "#")
		if !slices.ContainsFunc(names, func(n string) bool { return n != "" && strings.EqualFold(n, name) }) {
			continue
		}
		ranges, err := parseRanges(item)
		return err == nil && (ranges == nil || slices.ContainsFunc(ranges, func(r span) bool { return r.first <= index && index <= r.last }))
	}
	return false
}
