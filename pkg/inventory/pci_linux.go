package inventory

import (
	"strconv"
	"strings"

	"k8s.io/dynamic-resource-allocation/deviceattribute"
)

// wanted reports whether the PCI function is a network card or an accelerator.
func (s *scan) wanted(address string) (class uint32, ok bool) {
	n, err := strconv.ParseUint(s.value(pciDevices+address+"/class"), 0, 32)
	if err != nil {
		return 0, false
	}
	class = uint32(n)
	return class, class>>16 == classNetwork || class>>16 == classAccelerator
}

// pciFunction reads the function's own facts. joinPFs adds those of its PF.
func (s *scan) pciFunction(address string, class uint32) Function {
	dir := pciDevices + address + "/"
	f := Function{
		ID: address, Kind: KindNIC, PCIAddress: address, Class: class, Index: -1,
		Vendor:    hexID(s.value(dir + "vendor")),
		Device:    hexID(s.value(dir + "device")),
		Driver:    s.base(dir + "driver"),
		ACPIIndex: s.value(dir + "acpi_index"),
		NUMANode:  s.number(dir+"numa_node", -1),
	}
	if root, err := deviceattribute.GetPCIeRootAttributeByPCIBusID(address, s.roots); err == nil {
		f.PCIeRoot = *root.Value.StringValue
	}

	if pf := s.base(dir + "physfn"); pf != "" {
		f.Kind, f.PF = KindVF, &PF{PCIAddress: pf}
	} else {
		f.TotalVFs = s.number(dir+"sriov_totalvfs", 0)
	}
	if f.TotalVFs > 0 {
		f.Kind = KindPF
		s.readPF(&f, dir)
	}
	f.Netdevs = s.netdevs(s.netdevNames(dir, f.Driver), f.Kind != KindVF)
	s.link(&f)
	s.userspace(&f, dir)
	s.rdma(&f, "pci", dir)
	return f
}

// readPF reads the facts that only a physical function has.
func (s *scan) readPF(f *Function, dir string) {
	f.NumVFs = s.number(dir+"sriov_numvfs", 0)
	f.EswitchMode = s.kernel.EswitchMode(f.PCIAddress)
	if f.Vendor == vendorIntel { // only Intel cards have a profile, and reading it costs a firmware command
		f.DDPProfile = s.kernel.DDPProfile(f.PCIAddress)
	}
	for i := range f.NumVFs {
		if vf := s.base(dir + "virtfn" + strconv.Itoa(i)); vf != "" {
			s.vfIndex[vf] = i
		}
	}
}

const vendorIntel = "8086"

// link sets the facts that follow from the function's own interfaces.
func (s *scan) link(f *Function) {
	for _, n := range f.Netdevs {
		f.Uplink = f.Uplink || s.uplinks[n.Name]
		if f.LinkType == "" {
			f.LinkType = n.Type
		}
	}
}

// userspace reads the device file by which user space drives the function.
func (s *scan) userspace(f *Function, dir string) {
	switch f.Driver {
	case DriverVFIO:
		group := s.base(dir + "iommu_group")
		if group == "" {
			return
		}
		f.VFIOContainerDevice = "/dev/vfio/" + group
		f.VFIODevice = f.VFIOContainerDevice
		// Without an IOMMU, the kernel gives the host's file another name.
		if s.value(dir+"iommu_group/name") == "vfio-noiommu" {
			f.VFIODevice = "/dev/vfio/noiommu-" + group
		}
	case "uio", "igb_uio", "uio_pci_generic":
		if names := s.names(dir + "uio"); len(names) > 0 {
			f.UIODevice = "/dev/" + names[0]
		}
	}
}

// joinPFs adds the facts that virtual and scalable functions share with their PF.
func (s *scan) joinPFs() {
	for i := range s.out {
		f := &s.out[i]
		if f.PF == nil {
			continue
		}
		f.PF = s.pf(f.PF.PCIAddress)
		if f.Kind == KindVF {
			if index, ok := s.vfIndex[f.PCIAddress]; ok {
				f.Index = index
			}
		}
		place, ok := s.byID[f.PF.PCIAddress]
		if !ok {
			continue
		}
		of := &s.out[place]
		f.EswitchMode, f.DDPProfile = of.EswitchMode, of.DDPProfile
		if f.LinkType == "" {
			f.LinkType = of.LinkType
		}
	}
}

// pf returns the PF with an address. All its functions share the value.
func (s *scan) pf(address string) *PF {
	if pf, ok := s.pfs[address]; ok {
		return pf
	}
	pf := &PF{PCIAddress: address}
	if place, ok := s.byID[address]; ok {
		of := &s.out[place]
		pf.Device = of.Device
		if n := uplinkOf(s, of.Netdevs); n != nil {
			pf.Name, pf.AltNames, pf.Link = n.Name, n.AltNames, n.Link
		}
	}
	s.pfs[address] = pf
	return pf
}

// hexID returns a PCI number in the form of the device plugins.
func hexID(value string) string { return strings.ToLower(strings.TrimPrefix(value, "0x")) }
