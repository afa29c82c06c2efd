package pools

import (
	"fmt"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// DeviceType says from which functions a pool is made.
type DeviceType string

// The device types, as the SR-IOV device plugin names them.
const (
	// NetDevice are PCI network cards: virtual functions, and physical ones
	// that have no virtual ones.
	NetDevice DeviceType = "netDevice"
	// Accelerator are PCI processing accelerators.
	Accelerator DeviceType = "accelerator"
	// AuxNetDevice are scalable functions.
	AuxNetDevice DeviceType = "auxNetDevice"
	// SharedRDMA are PCI network cards with RDMA that many pods share, as the
	// RDMA shared device plugin has them.
	SharedRDMA DeviceType = "sharedRDMA"
)

// Source is where a pool was defined, for errors and logs.
type Source struct {
	// Object is e.g. ConfigMap kube-system/sriovdp-config.
	Object string
	// Field is a path in it, e.g. data[config.json].resourceList[2].
	Field string
}

func (s Source) String() string {
	if s.Field == "" {
		return s.Object
	}
	return s.Object + ": " + s.Field
}

func (s Source) at(field string) Source {
	if s.Field != "" {
		field = s.Field + "." + field
	}
	return Source{s.Object, field}
}

// item is the path of an element of a list.
func (s Source) item(field string, i int) Source {
	return s.at(fmt.Sprintf("%s[%d]", field, i))
}

// conflict returns an error about two pools that want the same.
func (s Source) conflict(format string, args ...any) error {
	return reason.Errorf(reason.PoolConflict, "%s: %w", s, fmt.Errorf(format, args...))
}

// errorf is an error about a field.
func (s Source) errorf(format string, args ...any) error {
	return reason.Wrap(reason.PoolInvalid, fmt.Errorf("%s: %w", s, fmt.Errorf(format, args...)))
}

// Pool is a set of functions that pods draw from by the name of a resource.
type Pool struct {
	// ResourceName has the domain: intel.com/sriov.
	ResourceName string
	Source       Source
	DeviceType   DeviceType
	// Selectors are tried in order; a function belongs to the pool by the first
	// that selects it. There is one at least.
	Selectors []Selector
	// ExcludeTopology has the NUMA node not told.
	ExcludeTopology bool
	// AdditionalInfo is given to pods with the device, by PCI address, or by *
	// for all.
	AdditionalInfo map[string]map[string]string
	// Share is how many pods may have a SharedRDMA pool at a time.
	Share int64
}

// Selector selects functions. A function must be selected by each of the lists
// that are not empty, and is selected by a list in which its value is.
type Selector struct {
	Vendors, Devices, Drivers []string
	PCIAddresses              []string
	ACPIIndexes               []string
	// PFNames and RootDevices select by the PF's interface or PCI address. What
	// follows a # are numbers and ranges of its functions: eno1#0-3,7.
	PFNames, RootDevices []string
	LinkTypes            []string
	DDPProfiles          []string
	PKeys                []string
	AuxTypes             []string
	// IfNames select by the function's own interface.
	IfNames []string
	// PFDevices select by the PF's device number; a function without a PF, as
	// virtual machines have them, by its own.
	PFDevices []string
	// NoPF leaves physical functions out, which may yet get virtual ones.
	NoPF bool
	// AltNames has PFNames match the interface's alternative names as well.
	AltNames bool
	// VDPAType is virtio or vhost, of functions with such a device.
	VDPAType string
	// IsRDMA selects functions with RDMA, and has pods get the devices.
	IsRDMA bool
	// NeedVhostNet has pods get the device vhost-net; it selects nothing.
	NeedVhostNet bool
}

// checkResourceName refuses what cannot be an extended resource or an attribute.
func checkResourceName(prefix, name string) error {
	full := prefix + "/" + name
	if name == "" {
		return fmt.Errorf("it is missing: name the resource")
	}
	for _, r := range name {
		if !isWord(r) {
			return fmt.Errorf("%q has %q: letters, digits, _ and - are allowed", name, r)
		}
	}
	if problems := validation.IsQualifiedName(full); len(problems) > 0 {
		return fmt.Errorf("%q is no name of a resource: %s", full, strings.Join(problems, "; "))
	}
	if len(full) > resourceapi.DeviceAttributeMaxValueLength {
		return fmt.Errorf("%q has %d characters, more than the %d of a device's attribute: choose a shorter name",
			full, len(full), resourceapi.DeviceAttributeMaxValueLength)
	}
	return nil
}

func isWord(r rune) bool {
	return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '_' || r == '-'
}
