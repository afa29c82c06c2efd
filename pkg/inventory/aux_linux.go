package inventory

import (
	"path"
	"strings"
)

// addScalable adds the scalable functions: the auxiliary devices named
// <driver>.sf.<number>. Other devices of that bus are parts of a driver.
func (s *scan) addScalable() {
	for _, id := range s.names(auxDevices) {
		parts := strings.Split(id, ".")
		if len(parts) != 3 || parts[1] != "sf" {
			continue
		}
		// ../../../devices/pci0000:00/0000:00:02.0/0000:03:00.0/mlx5_core.sf.4
		parent := path.Base(path.Dir(s.target(auxDevices + id)))
		place, ok := s.byID[parent]
		if !ok {
			continue
		}
		s.add(s.scalableFunction(id, s.out[place]))
	}
}

// scalableFunction reads a scalable function of a PCI function.
func (s *scan) scalableFunction(id string, parent Function) Function {
	dir := auxDevices + id + "/"
	f := Function{
		ID: id, Kind: KindSF, PCIAddress: parent.PCIAddress, Class: parent.Class,
		Vendor: parent.Vendor, Device: parent.Device, Driver: parent.Driver,
		NUMANode: parent.NUMANode, PCIeRoot: parent.PCIeRoot,
		PF:      &PF{PCIAddress: parent.PCIAddress},
		Index:   s.number(dir+"sfnum", -1),
		Netdevs: s.netdevs(s.netdevNames(dir, ""), false),
	}
	s.link(&f)
	s.rdma(&f, "auxiliary", dir)
	return f
}

// addVDPA finds the vDPA devices of functions.
func (s *scan) addVDPA() {
	const dir = "bus/vdpa/devices/"
	for _, name := range s.names(dir) {
		// ../../../devices/pci0000:00/0000:00:02.0/0000:03:00.2/vdpa0
		parent := path.Base(path.Dir(s.target(dir + name)))
		place, ok := s.byID[parent]
		if !ok {
			continue
		}
		v := &VDPA{Name: name, Driver: s.base(dir + name + "/driver")}
		for _, entry := range s.names(dir + name) {
			if strings.HasPrefix(entry, "vhost-vdpa-") {
				v.Path = "/dev/" + entry
			}
		}
		s.out[place].VDPA = v
	}
}
