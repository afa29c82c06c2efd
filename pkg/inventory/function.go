package inventory

import (
	"cmp"
	"slices"
)

// Kind is the kind of a function.
type Kind string

// The kinds of functions.
const (
	// KindNIC is a PCI function that cannot have virtual functions. In a virtual machine
	// it may be a virtual function of the machine's host.
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

// RDMA modes: RDMA devices belong to all network namespaces, or to one.
const (
	RDMAShared    = "shared"
	RDMAExclusive = "exclusive"
)

// eswitchSwitchdev is the eswitch mode in which functions have representors.
const eswitchSwitchdev = "switchdev"

// PCI base classes of functions that pools can have.
const (
	classNetwork     = 0x02
	classAccelerator = 0x12
)

// DriverVFIO is the driver by which user space drives a function.
const DriverVFIO = "vfio-pci"

// Inventory is the network hardware of a host at one moment.
type Inventory struct {
	// Functions are sorted by PCI address. Scalable functions follow their parent.
	Functions []Function
	// RDMAMode is RDMAShared, RDMAExclusive, or empty if it is not known.
	RDMAMode string
	// VhostNet is the path in the host of the device by which user space drives a virtio
	// network device, or empty if there is none.
	VhostNet string
}

// Function is a part of a network card, or of an accelerator, that a pod can get as a whole.
// Fields that do not apply, or are not known, are empty.
type Function struct {
	// ID is the CNI plugins' deviceID: the PCI address, or the name of the auxiliary
	// device, for example mlx5_core.sf.4.
	ID   string
	Kind Kind
	// PCIAddress is the address of the function, or of a scalable function's parent.
	PCIAddress string
	// Class is the PCI base class, subclass and interface, for example 0x020000.
	Class uint32
	// Vendor and Device are PCI's numbers in four lower-case hexadecimal digits. A
	// scalable function has its parent's.
	Vendor, Device string
	// Driver is bound to the PCI function, or to a scalable function's parent.
	Driver string
	// ACPIIndex is the firmware's number of the function.
	ACPIIndex string
	// NUMANode is -1 if there is none.
	NUMANode int
	// PCIeRoot is, for example, pci0000:3a.
	PCIeRoot string

	// PF is the physical function of a VF or SF, and nil otherwise.
	PF *PF
	// Index is the number of a VF or SF on its PF, and -1 otherwise.
	Index int
	// TotalVFs is the number of VFs that a PF may have, NumVFs the number that it has.
	TotalVFs, NumVFs int

	// Netdevs are the function's own interfaces on the host, sorted by name, without
	// representors of other functions.
	Netdevs []Netdev
	// LinkType is the type of the function's interface, or otherwise of its PF's.
	LinkType string
	// Uplink is true if the host's default route uses the function.
	Uplink bool
	// EswitchMode is the mode of the function or of its PF: legacy or switchdev.
	EswitchMode string
	// Representor is the interface that represents a VF or SF on the host.
	Representor string
	// DDPProfile is the name of the package in an Intel card's parser.
	DDPProfile string
	// PKey is the first InfiniBand partition key.
	PKey string

	// RDMA are the function's RDMA devices on the host.
	RDMA []RDMA
	// RDMACapable is true also while the RDMA devices are in a pod's namespace.
	RDMACapable bool
	// VFIODevice is the path in the host at which user space opens a function bound to
	// vfio-pci. VFIOContainerDevice is its path in a container, which differs only
	// without an IOMMU.
	VFIODevice, VFIOContainerDevice string
	// UIODevice is the path in the host for a function bound to one of the older drivers.
	UIODevice string
	// VDPA is the vDPA device on the function, or nil.
	VDPA *VDPA
}

// PF is the part of a physical function that its virtual and scalable functions share.
type PF struct {
	PCIAddress, Device string
	// Name is the PF's own interface or, in switchdev mode, that of its physical port.
	// AltNames are other names of this interface.
	Name     string
	AltNames []string
	Link     LinkState
}

// LinkState is the state of a link, or empty if it is not known.
type LinkState string

// The states of a link.
const (
	LinkUp   LinkState = "up"
	LinkDown LinkState = "down"
)

// Netdev is a network interface.
type Netdev struct {
	Name string
	// MAC is the permanent address if the kernel knows it, and otherwise the current one.
	MAC string
	// Type is LinkEther, LinkInfiniband, or the kernel's number of another type.
	Type string
	// AltNames are alternative names.
	AltNames []string
	// Link is the state of the link. It is down while the interface is not up.
	Link LinkState
	// Up is true if the interface is up.
	Up bool
}

// RDMA is an RDMA device with the files by which user space opens it.
type RDMA struct {
	Name string
	// CharDevices are paths in the host, sorted, except that rdma_cm is last.
	CharDevices []string
}

// VDPA is a vDPA device.
type VDPA struct {
	Name string
	// Driver is vhost_vdpa or virtio_vdpa.
	Driver string
	// Path is the device file of vhost_vdpa in the host.
	Path string
}

// IsNetwork reports whether the function is a network card by its PCI class.
func (f *Function) IsNetwork() bool { return f.Class>>16 == classNetwork }

// IsAccelerator reports whether the function is a processing accelerator by its PCI class.
func (f *Function) IsAccelerator() bool { return f.Class>>16 == classAccelerator }

// VFIOBound reports whether user space drives the function.
func (f *Function) VFIOBound() bool { return f.Driver == DriverVFIO }

// PFName returns the interface of the function's PF, or "" if there is none.
func (f *Function) PFName() string {
	if f.PF == nil {
		return ""
	}
	return f.PF.Name
}

// PFAddress returns the PCI address of the function's PF, or "" if it has none.
func (f *Function) PFAddress() string {
	if f.PF == nil {
		return ""
	}
	return f.PF.PCIAddress
}

// sortFunctions sorts functions by address, kind, index and ID.
func sortFunctions(functions []Function) {
	slices.SortFunc(functions, func(a, b Function) int {
		return cmp.Or(
			cmp.Compare(a.PCIAddress, b.PCIAddress),
			compareBool(a.Kind == KindSF, b.Kind == KindSF),
			cmp.Compare(a.Index, b.Index),
			cmp.Compare(a.ID, b.ID))
	})
}

// compareBool orders false before true.
func compareBool(a, b bool) int {
	switch {
	case a == b:
		return 0
	case b:
		return -1
	}
	return 1
}
