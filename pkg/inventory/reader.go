package inventory

import (
	"fmt"
	"io/fs"
	"os"

	"k8s.io/dynamic-resource-allocation/deviceattribute"
)

const (
	pciDevices = "bus/pci/devices/"
	auxDevices = "bus/auxiliary/devices/"
)

// Reader reads the inventory of a host.
type Reader struct {
	// Sys is where the host's sysfs is mounted; /sys if empty. Interfaces are
	// those of the network namespace in which it was mounted.
	Sys string
	// Dev is where the host's /dev is seen; /dev if empty. Paths in the
	// inventory are the host's all the same.
	Dev string
	// Kernel answers what sysfs does not; the zero value, nothing.
	Kernel Kernel
}

// Read looks at all there is. Two calls with nothing changed between them
// return equal values. An error is one of the whole: there is no sysfs there, or
// netlink does not answer.
func (r Reader) Read() (Inventory, error) {
	if r.Sys == "" {
		r.Sys = "/sys"
	}
	if r.Dev == "" {
		r.Dev = "/dev"
	}
	if _, err := os.Stat(r.Sys); err != nil {
		return Inventory{}, fmt.Errorf("reading the host's hardware: %w", err)
	}
	links, err := r.Kernel.links()
	if err != nil {
		return Inventory{}, fmt.Errorf("reading the host's interfaces: %w", err)
	}
	s := &scan{
		sysfs: &sysfs{root: r.Sys}, kernel: r.Kernel, links: links, dev: &sysfs{root: r.Dev},
		pfs: map[string]*PF{}, vfIndex: map[string]int{}, byID: map[string]int{}, uplinks: map[string]bool{},
	}
	s.roots = deviceattribute.WithFS(os.DirFS(r.Sys).(fs.ReadLinkFS))
	return s.run(), nil
}

// scan is one reading.
type scan struct {
	*sysfs
	dev    *sysfs
	kernel Kernel
	links  map[string]Link
	roots  deviceattribute.MachineModifier

	rdmaMode string
	rdmaCM   bool
	uplinks  map[string]bool // by interface
	out      []Function
	// byID has the places in out.
	byID map[string]int
	// pfs and vfIndex are by PCI address, of the PF and of the VF.
	pfs     map[string]*PF
	vfIndex map[string]int
}

func (s *scan) run() Inventory {
	s.rdmaMode = s.kernel.rdmaMode()
	s.findUplinks()
	s.rdmaCM = s.dev.exists("infiniband/rdma_cm")
	for _, address := range s.names(pciDevices) {
		if class, ok := s.wanted(address); ok {
			s.add(s.pciFunction(address, class))
		}
	}
	s.addScalable()
	s.joinPFs()
	s.addVDPA()
	s.addRepresentors()
	sortFunctions(s.out)
	inventory := Inventory{Functions: s.out, RDMAMode: s.rdmaMode}
	if s.dev.exists("vhost-net") {
		inventory.VhostNet = "/dev/vhost-net"
	}
	return inventory
}

func (s *scan) add(f Function) {
	s.byID[f.ID] = len(s.out)
	s.out = append(s.out, f)
}
