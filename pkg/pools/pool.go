package pools

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// DeviceType is the kind of functions in a pool.
type DeviceType string

// The device types, as the SR-IOV device plugin names them.
const (
	// NetDevice is for PCI network cards: virtual functions, and physical functions
	// without virtual ones.
	NetDevice DeviceType = "netDevice"
	// Accelerator is for PCI processing accelerators.
	Accelerator DeviceType = "accelerator"
	// AuxNetDevice is for scalable functions.
	AuxNetDevice DeviceType = "auxNetDevice"
	// SharedRDMA is for PCI network cards with RDMA that several pods share, as those of
	// the RDMA shared device plugin.
	SharedRDMA DeviceType = "sharedRDMA"
)

// Source is where a pool is defined, for errors and logs.
type Source struct {
	// Object is the object's kind and name, for example ConfigMap
	// kube-system/sriovdp-config.
	Object string
	// Field is the path in the object, for example data[config.json].resourceList[2].
	Field string
}

// String returns the object and the field.
func (s Source) String() string {
	if s.Field == "" {
		return s.Object
	}
	return s.Object + ": " + s.Field
}

// at returns the source of a field below this one.
func (s Source) at(field string) Source {
	if s.Field != "" {
		field = s.Field + "." + field
	}
	return Source{s.Object, field}
}

// item returns the source of an element of a list.
func (s Source) item(field string, i int) Source {
	return s.at(fmt.Sprintf("%s[%d]", field, i))
}

// conflict returns an error about two pools that contradict each other.
func (s Source) conflict(format string, args ...any) error {
	return reason.Errorf(reason.PoolConflict, "%s: %w", s, fmt.Errorf(format, args...))
}

// errorf returns an error about a field.
func (s Source) errorf(format string, args ...any) error {
	return reason.Wrap(reason.PoolInvalid, fmt.Errorf("%s: %w", s, fmt.Errorf(format, args...)))
}

// Pool is a set of functions that pods draw from by the name of a resource.
type Pool struct {
	// ResourceName includes the domain: intel.com/sriov.
	ResourceName string
	Source       Source
	DeviceType   DeviceType
	// Selectors has at least one entry. A function belongs to the pool by the first
	// selector that selects it.
	Selectors []Selector
	// ExcludeTopology is true if the NUMA node is not published.
	ExcludeTopology bool
	// AdditionalInfo is passed to pods with the device, by PCI address, or by * for all.
	AdditionalInfo map[string]map[string]string
	// Share is the number of pods that may use a SharedRDMA pool at a time.
	Share int64
}

// Selector selects functions. Every list that is not empty must contain the function's
// value.
type Selector struct {
	Vendors, Devices, Drivers []string
	PCIAddresses              []string
	ACPIIndexes               []string
	// PFNames and RootDevices select by the PF's interface or PCI address. Numbers and
	// ranges of its functions may follow after a #: eno1#0-3,7.
	PFNames, RootDevices []string
	LinkTypes            []string
	DDPProfiles          []string
	PKeys                []string
	AuxTypes             []string
	// IfNames select by the function's own interface.
	IfNames []string
	// PFDevices select by the PF's device number, or by the function's own if it has no
	// PF, as in virtual machines.
	PFDevices []string
	// NoPF excludes physical functions, which may still get virtual ones.
	NoPF bool
	// AltNames makes PFNames match the interface's alternative names as well.
	AltNames bool
	// VDPAType is virtio or vhost, and selects functions with such a device.
	VDPAType string
	// IsRDMA selects functions with RDMA, whose RDMA devices pods get.
	IsRDMA bool
	// NeedVhostNet gives pods the device vhost-net. It selects nothing.
	NeedVhostNet bool
}

// checkResourceName rejects names that an extended resource or an attribute cannot have.
func checkResourceName(prefix, name string) error {
	full := prefix + "/" + name
	if name == "" {
		return fmt.Errorf("missing: name the resource")
	}
	for _, r := range name {
		if !isWord(r) {
			return fmt.Errorf("%q has %q: letters, digits, _ and - are allowed", name, r)
		}
	}
	if problems := validation.IsQualifiedName(full); len(problems) > 0 {
		return fmt.Errorf("%q is not a valid resource name: %s", full, strings.Join(problems, "; "))
	}
	if len(full) > resourceapi.DeviceAttributeMaxValueLength {
		return fmt.Errorf("%q has %d characters, more than the limit of %d for a device attribute: choose a shorter name",
			full, len(full), resourceapi.DeviceAttributeMaxValueLength)
	}
	return nil
}

// isWord reports whether a resource name may contain r.
func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
