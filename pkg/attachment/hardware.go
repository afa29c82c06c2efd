package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Attributes of the devices of resource pools. Multus' own DRA client and
// KubeVirt read them, too.
const (
	// AttributeResourceName is the pool's name.
	AttributeResourceName = "k8s.cni.cncf.io/resourceName"
	// AttributeDeviceID is what the CNI plugins know as deviceID.
	AttributeDeviceID = "k8s.cni.cncf.io/deviceID"
)

// Hardware is a device of a resource pool that was given to a pod: all that
// plugins, containers and the device's way back need, whatever becomes of the
// pool meanwhile.
type Hardware struct {
	// ID is what the CNI plugins know as deviceID: a PCI address, or the name of
	// an auxiliary device. Empty is a share of all the pool's functions.
	ID string `json:"id,omitempty"`
	// ResourceName is the pool's, e.g. "intel.com/sriov".
	ResourceName string `json:"resourceName"`
	// PCIAddress is the function's, and an auxiliary device's parent's.
	PCIAddress string `json:"pciAddress,omitempty"`
	// Files are the device files that a container gets.
	Files []DeviceFile `json:"files,omitempty"`
	// Info is what the container is told of the device, by who provides it and
	// then by key, as the SR-IOV device plugin does in PCIDEVICE_…_INFO.
	Info map[string]map[string]string `json:"info,omitempty"`
	// DeviceInfo is the same for network-status, in the form of the device
	// information specification.
	DeviceInfo json.RawMessage `json:"deviceInfo,omitempty"`
	// Extended says that the pod asked for the pool as an extended resource
	// (KEP-5004): the device is that of one container's request.
	Extended bool `json:"extended,omitempty"`
	// Home is how the device was on the host; nil where it has no interface, or
	// where several claims share it.
	Home *Home `json:"home,omitempty"`
}

// DeviceFile is a file under /dev.
type DeviceFile struct {
	// Path is the host's.
	Path string `json:"path"`
	// ContainerPath is empty where it is the same.
	ContainerPath string `json:"containerPath,omitempty"`
}

// Home is the state of a function in which the host gets it back.
type Home struct {
	// Interface and MAC are those of the function's network interface; MAC is
	// empty for one that is not of Ethernet.
	Interface string `json:"interface,omitempty"`
	MAC       string `json:"mac,omitempty"`
	// Driver is that of the PCI function.
	Driver string `json:"driver,omitempty"`
	// VF is what the physical function has set for a virtual one; nil for others.
	VF *VFHome `json:"vf,omitempty"`
}

// VFHome is a virtual function as its physical function sees it.
type VFHome struct {
	// PF is the interface of the physical function, and Index the function's.
	PF    string `json:"pf"`
	Index int    `json:"index"`
	// MAC is the administrator's; all zeros for none.
	MAC string `json:"mac"`
	// VLAN is 0 for none, Qos its priority.
	VLAN int `json:"vlan,omitempty"`
	Qos  int `json:"qos,omitempty"`
	// Settings are the others; nil in a record of a driver that kept none.
	Settings *VFSettings `json:"settings,omitempty"`
}

// VFSettings are what a physical function allows a virtual one, and how it
// limits it.
type VFSettings struct {
	Trust      bool `json:"trust"`
	SpoofCheck bool `json:"spoofCheck"`
	// MinRate and MaxRate are in Mbit/s; 0 for no limit.
	MinRate int `json:"minRate"`
	MaxRate int `json:"maxRate"`
	// LinkState is the kernel's number: auto, enable or disable.
	LinkState uint32 `json:"linkState"`
}

// variable is the prefix of the environment variables of device plugins for
// network devices.
const variable = "PCIDEVICE_"

// Environment returns the variables, NAME=value, that tell a container of its
// devices, as the SR-IOV device plugin sets them: for each pool the devices' IDs
// in their order, and what there is to know of each.
func Environment(devices []Hardware) ([]string, error) {
	ids := map[string][]string{}
	infos := map[string]map[string]map[string]map[string]string{}
	var pools []string
	for _, d := range devices {
		if d.ID == "" {
			continue
		}
		if infos[d.ResourceName] == nil {
			infos[d.ResourceName] = map[string]map[string]map[string]string{}
			pools = append(pools, d.ResourceName)
		}
		ids[d.ResourceName] = append(ids[d.ResourceName], d.ID)
		infos[d.ResourceName][d.ID] = d.Info
	}
	slices.Sort(pools)
	var out []string
	for _, pool := range pools {
		info, err := json.Marshal(infos[pool])
		if err != nil {
			return nil, fmt.Errorf("describing the devices of %s: %w", pool, err)
		}
		name := variableOf(pool)
		out = append(out, name+"="+strings.Join(ids[pool], ","), name+"_INFO="+string(info))
	}
	return out, nil
}

// variableOf is PCIDEVICE_INTEL_COM_SRIOV for intel.com/sriov. Other characters
// of the name than dots and the slash stay as they are.
func variableOf(resourceName string) string {
	return variable + strings.ToUpper(strings.NewReplacer(".", "_", "/", "_").Replace(resourceName))
}

// Pair gives each network that draws from a pool, in their order, the next
// device of it that is not given yet (behaviour B9). pools are the networks',
// free the pools of the devices; both say "" for none. It returns for each
// network the index of its device, -1 for a network without a pool.
func Pair(networks []Network, free []string) ([]int, error) {
	free = slices.Clone(free)
	out := make([]int, len(networks))
	for i, n := range networks {
		out[i] = -1
		if n.ResourceName == "" {
			continue
		}
		at := slices.Index(free, n.ResourceName)
		if at < 0 {
			return nil, fmt.Errorf("network %s draws from resource pool %s, of which the pod has no further device: "+
				"ask for as many in resources.limits as networks draw from it", n.Ref, n.ResourceName)
		}
		out[i], free[at] = at, ""
	}
	return out, nil
}

// DrawsFrom returns an error unless a network and the device that was allocated
// for it go together; the device is nil for none.
func (n Network) DrawsFrom(device *Hardware) error {
	switch {
	case device == nil && n.ResourceName == "":
		return nil
	case device == nil:
		return fmt.Errorf("network %s draws from resource pool %s, and the pod's claims have no device of it: "+
			"request the network's DeviceClass as it is now (a claim made before the pool was named must be recreated), "+
			"or claim a device that another driver publishes with the attributes %s and %s",
			n.Ref, n.ResourceName, AttributeResourceName, AttributeDeviceID)
	case n.ResourceName == "":
		return fmt.Errorf("network %s draws from no resource pool, and device %s of %s was allocated for it: "+
			"request the network's own DeviceClass, or give the NAD the annotation %s", n.Ref, device.ID, device.ResourceName, ResourceNameAnnotation)
	case n.ResourceName != device.ResourceName:
		return fmt.Errorf("network %s draws from resource pool %s, and device %s of %s was allocated for it: request a device of its pool",
			n.Ref, n.ResourceName, device.ID, device.ResourceName)
	}
	return nil
}

// errOnlyDevice is why a config without a network may say nothing else.
var errOnlyDevice = errors.New("config: says how to attach a network and names none: name the network, or leave the config out to get the device only")
