package inventory

import (
	"cmp"
	"slices"
)

// Kind says what a function is.
type Kind string

// The kinds of functions.
const (
	// KindNIC is a PCI function that can have no virtual functions: also a
	// virtual function that a virtual machine was given.
	KindNIC Kind = "nic"
	// KindPF is a physical function, which can have virtual ones.
	KindPF Kind = "pf"
	// KindVF is a virtual function of a PF of this host.
	KindVF Kind = "vf"
	// KindSF is a scalable function: an auxiliary device on a PCI function.
	KindSF Kind = "sf"
)

// Link types, as netlink and the device plugins call them.
const (
	LinkEther      = "ether"
	LinkInfiniband = "infiniband"
)

// RDMA modes: whether RDMA devices are seen by all network namespaces.
const (
	RDMAShared    = "shared"
	RDMAExclusive = "exclusive"
)

// EswitchSwitchdev is the mode in which functions have representors.
const EswitchSwitchdev = "switchdev"

// DriverVFIO is the driver that hands a function to user space.
const DriverVFIO = "vfio-pci"

// Inventory is what a host has at one moment.
type Inventory struct {
	// Functions are sorted by PCI address; scalable functions follow theirs.
	Functions []Function
	// RDMAMode is RDMAShared, RDMAExclusive, or empty where it is not known.
	RDMAMode string
	// VhostNet is the device by which user space drives a virtio network
	// device, a path in the host; empty where there is none.
	VhostNet string
}

// Function is a part of a network card, or of an accelerator, that can be given
// to a pod as a whole. Fields that do not apply, or are not known, are empty.
type Function struct {
	// ID is what the CNI plugins know as deviceID: the PCI address, or the name
	// of the auxiliary device, e.g. mlx5_core.sf.4.
	ID   string
	Kind Kind
	// PCIAddress is the function's, and a scalable function's parent's.
	PCIAddress string
	// Class is that of PCI: base class, subclass and interface, e.g. 0x020000.
	Class uint32
	// Vendor and Device are PCI's numbers in four lower-case hexadecimal digits;
	// of a scalable function, its parent's.
	Vendor, Device string
	// Driver is bound to the PCI function; of a scalable function, to its parent.
	Driver string
	// ACPIIndex is the number that the firmware gives to the function.
	ACPIIndex string
	// NUMANode is -1 where there is none.
	NUMANode int
	// PCIeRoot is e.g. pci0000:3a.
	PCIeRoot string

	// PF is the physical function of a VF or SF; nil otherwise.
	PF *PF
	// Index is the number of a VF or SF on its PF, and -1 otherwise.
	Index int
	// TotalVFs and NumVFs are how many a PF may have, and how many it has.
	TotalVFs, NumVFs int

	// Netdevs are the function's own interfaces on the host, sorted by name,
	// without the representors of others.
	Netdevs []Netdev
	// LinkType is that of the function's interface or else of its PF's.
	LinkType string
	// Uplink says that the host's default route goes through the function.
	Uplink bool
	// EswitchMode is that of the function or of its PF: legacy, switchdev.
	EswitchMode string
	// Representor is the interface that stands for a VF or SF on the host.
	Representor string
	// DDPProfile names what is loaded into the card's parser, of an Intel card.
	DDPProfile string
	// PKey is the first InfiniBand partition key.
	PKey string

	// RDMA are the function's RDMA devices on the host.
	RDMA []RDMA
	// RDMACapable holds also while the devices are in a pod's namespace.
	RDMACapable bool
	// VFIODevice is where user space opens a function bound to vfio-pci, a path
	// in the host; VFIOContainerDevice is what it must be called in a container.
	// They differ without an IOMMU only.
	VFIODevice, VFIOContainerDevice string
	// UIODevice is the same for the older drivers.
	UIODevice string
	// VDPA is the vDPA device that was made on the function; nil without.
	VDPA *VDPA
}

// PF is what a virtual or scalable function needs to know of its physical one.
type PF struct {
	PCIAddress, Device string
	// Name is the PF's own interface, or its uplink's representor; AltNames are
	// other names of that.
	Name     string
	AltNames []string
	Link     LinkState
}

// LinkState says whether a link carries traffic.
type LinkState string

// The states of a link; empty where none is known.
const (
	LinkUp   LinkState = "up"
	LinkDown LinkState = "down"
)

// Netdev is a network interface.
type Netdev struct {
	Name string
	// MAC is the permanent address, where the kernel knows it, and else the
	// present one.
	MAC string
	// Type is LinkEther, LinkInfiniband, or the kernel's number of another.
	Type string
	// AltNames are further names.
	AltNames []string
	// Link is the state of the link, down also while the interface is not set up.
	Link LinkState
	// Up says that the interface is set up.
	Up bool
}

// RDMA is an RDMA device and how user space opens it.
type RDMA struct {
	Name string
	// CharDevices are paths in the host, sorted, with rdma_cm last if it is there.
	CharDevices []string
}

// VDPA is a vDPA device.
type VDPA struct {
	Name string
	// Driver is vhost_vdpa or virtio_vdpa.
	Driver string
	// Path is the device file of the former, in the host.
	Path string
}

// VFIOBound says that user space drives the function.
func (f *Function) VFIOBound() bool { return f.Driver == DriverVFIO }

// PFName is the interface of the function's PF; empty for one that has none.
func (f *Function) PFName() string {
	if f.PF == nil {
		return ""
	}
	return f.PF.Name
}

// PFAddress is the PCI address of the function's PF; empty for one that has none.
func (f *Function) PFAddress() string {
	if f.PF == nil {
		return ""
	}
	return f.PF.PCIAddress
}

// sortFunctions puts every function in its one place.
func sortFunctions(functions []Function) {
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(
			cmp.Compare(a.PCIAddress, b.PCIAddress),
			compareBool(a.Kind == KindSF, b.Kind == KindSF),
			cmp.Compare(a.Index, b.Index),
			cmp.Compare(a.ID, b.ID))
	})
}

func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
