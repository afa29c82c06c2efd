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
	// Sys is the mount point of the host's sysfs, /sys if empty. It shows the interfaces
	// of the network namespace in which it was mounted.
	Sys string
	// Dev is the path of the host's /dev, /dev if empty. The inventory has the paths in
	// the host all the same.
	Dev string
	// Kernel has the functions for facts that sysfs lacks, or none: such facts are then not known.
	Kernel Kernel
}

// Read returns the whole inventory. Two calls return equal values if nothing has changed
// between them. It fails only if there is no sysfs or netlink fails.
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
	if r.Kernel.Links == nil {
		r.Kernel = noKernel
	}
	links, err := r.Kernel.Links()
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

// scan is the state of one Read.
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
	// byID has the indexes in out.
	byID map[string]int
	// pfs has the PFs, and vfIndex the indexes of VFs, by PCI address.
	pfs     map[string]*PF
	vfIndex map[string]int
}

// run reads everything.
func (s *scan) run() Inventory {
	s.rdmaMode = s.kernel.RDMAMode()
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

// add adds a function.
func (s *scan) add(f Function) {
	s.byID[f.ID] = len(s.out)
	s.out = append(s.out, f)
}
