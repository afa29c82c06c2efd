package attachment

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Attributes of the devices of resource pools. KubeVirt reads them, too, and Multus since
// commit 7235e831c, which no release up to v4.3.0 has.
const (
	// AttributeResourceName is the pool's name.
	AttributeResourceName = "k8s.cni.cncf.io/resourceName"
	// AttributeDeviceID is what the CNI plugins know as deviceID.
	AttributeDeviceID = "k8s.cni.cncf.io/deviceID"
)

// AddPools adds the driver of a slice to the drivers of each resource pool of which the slice has devices.
func AddPools(drivers map[string][]string, s *resourceapi.ResourceSlice) {
	for _, d := range s.Spec.Devices {
		if pool := d.Attributes[AttributeResourceName].StringValue; pool != nil && !slices.Contains(drivers[*pool], s.Spec.Driver) {
			drivers[*pool] = append(drivers[*pool], s.Spec.Driver)
		}
	}
}

// CapacityAddresses is the capacity of the device of a network whose addresses may run out.
const CapacityAddresses = "addresses"

// Hardware is a device of a resource pool that a pod has. It has everything that plugins,
// containers and the restore on the host need, even if the pool changes meanwhile.
type Hardware struct {
	// ID is the plugins' deviceID: a PCI address, or the name of an auxiliary device. It
	// is empty for a share of all functions of the pool.
	ID string `json:"id,omitempty"`
	// ResourceName is the pool's resource, for example intel.com/sriov.
	ResourceName string `json:"resourceName"`
	// PCIAddress is the function's, or that of an auxiliary device's parent.
	PCIAddress string `json:"pciAddress,omitempty"`
	// Files are the device files that a container gets.
	Files []DeviceFile `json:"files,omitempty"`
	// Info describes the device for the container, by provider and key, as the SR-IOV
	// device plugin does in PCIDEVICE_…_INFO.
	Info map[string]map[string]string `json:"info,omitempty"`
	// DeviceInfo describes the device for network-status, in the form of the device
	// information specification.
	DeviceInfo json.RawMessage `json:"deviceInfo,omitempty"`
	// Extended is true if the pod requests the pool as an extended resource (KEP-5004):
	// the device belongs to one container's request.
	Extended bool `json:"extended,omitempty"`
	// BootID is the boot ID of the node when Files, Info and DeviceInfo were read: the kernel numbers device files in the
	// order in which drivers register them. It is empty in records of earlier versions.
	BootID string `json:"bootID,omitempty"`
	// Original is the device's state before the pod had it. It is nil if several claims
	// share the device.
	Original *OriginalState `json:"original,omitempty"`
}

// DeviceFile is a file under /dev.
type DeviceFile struct {
	// Path is the path on the host.
	Path string `json:"path"`
	// ContainerPath is the path in the container, or empty if it is the same.
	ContainerPath string `json:"containerPath,omitempty"`
}

// OriginalState is the state of a function to which nadra restores it after the pod.
type OriginalState struct {
	// Interface and MAC belong to the function's network interface. MAC is empty unless
	// the interface is Ethernet.
	Interface string `json:"interface,omitempty"`
	MAC       string `json:"mac,omitempty"`
	// Driver is the PCI function's driver.
	Driver string `json:"driver,omitempty"`
	// VF is what the physical function has set for a virtual one, or nil.
	VF *VFState `json:"vf,omitempty"`
}

// VFState is what a physical function has set for a virtual function.
type VFState struct {
	// PF is the interface of the physical function. Index is the number of the virtual
	// function.
	PF    string `json:"pf"`
	Index int    `json:"index"`
	// MAC is the administrator's address, or all zeros.
	MAC string `json:"mac"`
	// VLAN is the VLAN, or 0. Qos is its priority.
	VLAN int `json:"vlan,omitempty"`
	Qos  int `json:"qos,omitempty"`
	// Settings are the other settings.
	Settings *VFSettings `json:"settings,omitempty"`
}

// VFSettings are a virtual function's permissions and limits.
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

// Environment returns the variables, NAME=value, that describe a container's devices as those of
// the SR-IOV device plugin do: for each pool the IDs of the devices in their order, and the
// details of each device.
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

// variableOf returns the name of a pool's variable: PCIDEVICE_INTEL_COM_SRIOV for intel.com/sriov.
// It only replaces dots and the slash.
func variableOf(resourceName string) string {
	return variable + strings.ToUpper(strings.NewReplacer(".", "_", "/", "_").Replace(resourceName))
}

// Pair assigns to each network that draws from a pool, in their order, the next free device of the
// pool (behaviour B9). free has the pools of the devices. It returns for each network the index of
// its device, -1 for a network without a pool.
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
			return nil, reason.Errorf(reason.DeviceMismatch,
				"network %s draws from resource pool %s, and the pod has no further device of it: "+
					"request as many in resources.limits as networks draw from the pool", n.Ref, n.ResourceName)
		}
		out[i], free[at] = at, ""
	}
	return out, nil
}

// DrawsFrom returns an error unless the device that was allocated for a network is of the
// network's pool. device is nil if no device was allocated.
func (n Network) DrawsFrom(device *Hardware) error {
	switch {
	case device == nil && n.ResourceName == "":
		return nil
	case device == nil:
		return reason.Errorf(reason.DeviceMismatch, "network %s draws from resource pool %s, and the pod's claims have no device of it: "+
			"request the network's DeviceClass (recreate a claim that is older than the pool's annotation), "+
			"or request a device that another driver publishes with the attributes %s and %s",
			n.Ref, n.ResourceName, AttributeResourceName, AttributeDeviceID)
	case n.ResourceName == "":
		return reason.Errorf(reason.DeviceMismatch, "network %s draws from no resource pool, and device %s of %s was allocated for it: "+
			"request the network's DeviceClass, or add the annotation %s to the NAD", n.Ref, device.ID, device.ResourceName, ResourceNameAnnotation)
	case n.ResourceName != device.ResourceName:
		return reason.Errorf(reason.DeviceMismatch,
			"network %s draws from resource pool %s, and device %s of %s was allocated for it: request a device of its pool",
			n.Ref, n.ResourceName, device.ID, device.ResourceName)
	}
	return nil
}

// errNoNetwork refuses a config without a network that has other fields.
var errNoNetwork = reason.Errorf(reason.ClaimInvalid,
	"the config has arguments for a network but no network: name the network, or remove the config to get only the device")
