package attachment

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/utils/ptr"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
)

// OtherDriverDevice is a device of another DRA driver that a pod has by a claim. The other driver prepares it, and
// makes it what it was.
type OtherDriverDevice struct {
	// ResourceName is the pool for which the driver publishes the device by AttributeResourceName, or empty.
	ResourceName string `json:"resourceName,omitempty"`
	// ID is what CNI plugins know as deviceID, and Interface the name of the device's interface on the host. At
	// least one of them is needed.
	ID        string `json:"id,omitempty"`
	Interface string `json:"interface,omitempty"`
	// Claim is the name of the ResourceClaim. Driver, Pool and Device are from the allocation.
	Claim  string `json:"claim"`
	Driver string `json:"driver"`
	Pool   string `json:"pool"`
	Device string `json:"device"`
	// Moved is whether the driver has reported in the claim an interface of the device in a pod.
	Moved bool `json:"-"`
}

// movers are the drivers that always move their devices into pods.
var movers = map[string]bool{"dra.net": true}

// Name returns the device with its name alone: driver, pool and device.
func (d OtherDriverDevice) Name() OtherDriverDevice {
	return OtherDriverDevice{Driver: d.Driver, Pool: d.Pool, Device: d.Device}
}

func (d OtherDriverDevice) String() string {
	return fmt.Sprintf("%s (device %s of driver %s, by ResourceClaim %s)", cmp.Or(d.ID, d.Interface), d.Device, d.Driver, d.Claim)
}

// attributePCIBusID is the standard attribute of PCI functions (KEP-4381).
const attributePCIBusID = "resource.kubernetes.io/pciBusID"

// interfaceAttributes are the names of attributes, in any driver's domain, that have the interface's name: DRANET
// has dra.net/ifName.
var interfaceAttributes = []string{"ifName", "interfaceName"}

// Published returns the device with what its driver publishes of it.
func (d OtherDriverDevice) Published(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) OtherDriverDevice {
	text := func(name resourceapi.QualifiedName) string { return ptr.Deref(attributes[name].StringValue, "") }
	d.ResourceName, d.ID = text(AttributeResourceName), cmp.Or(text(AttributeDeviceID), text(attributePCIBusID))
	for _, name := range slices.Sorted(maps.Keys(attributes)) {
		if slices.Contains(interfaceAttributes, path.Base(string(name))) {
			d.Interface = cmp.Or(d.Interface, text(name))
		}
	}
	return d
}

// firstPlugin has what OnDevice needs of the first plugin of a chain.
type firstPlugin struct {
	Type, Master    string
	LinkInContainer bool
}

// firstPlugin returns the first plugin of the chain. The configuration was parsed before, and has one.
func (a Attachment) firstPlugin() (first firstPlugin) {
	var list struct{ Plugins []firstPlugin }
	if json.Unmarshal(a.Conflist, &list) == nil && len(list.Plugins) > 0 {
		first = list.Plugins[0]
		first.LinkInContainer = first.LinkInContainer && masterPlugins[first.Type] // others ignore it
	}
	return first
}

// OnDevice returns the attachment on a device of another driver, and whether the device then serves no other
// network. The first plugin of the chain decides how: macvlan and its like get the device's interface as their
// master, on the host or in the pod; host-device gets a device without an ID by its interface; other plugins get the
// device's ID as WithDevice gives it to them. OnDevice refuses a device whose driver does not publish what the plugin
// needs, and a NAD that names another master on the host. A master in the pod may have another name there.
func (a Attachment) OnDevice(d OtherDriverDevice) (on Attachment, alone bool, err error) {
	published := v1alpha1.AttachmentConfig{Interface: d.Interface, DeviceID: d.ID}
	if err := v1alpha1.AsError(published.Validate(field.NewPath("attributes"))); err != nil {
		return on, false, reason.Errorf(reason.DeviceMismatch, "running network %s on device %s of driver %s: %w", a.Network, d.Device, d.Driver, err)
	}
	switch first := a.firstPlugin(); {
	case (d.Moved || movers[d.Driver]) && !first.LinkInContainer:
		err = reason.Errorf(reason.DeviceMismatch, "driver %s moves device %s into the pod itself, where plugin %s of network %s does not look for it: "+
			"use a network of macvlan, ipvlan or vlan with linkInContainer, or a driver that leaves the device on the host", d.Driver, d.Device, first.Type, a.Network)
	case masterPlugins[first.Type] && (d.Interface != "" || first.LinkInContainer && first.Master != ""):
		if first.Master == "" {
			on, err = a.withKey("master", d.Interface)
		} else if on = a; first.Master != d.Interface && !first.LinkInContainer {
			err = reason.Errorf(reason.DeviceMismatch, "network %s has the master %s, and its device %s of driver %s is interface %s: leave master out of the NAD, or request the device of %s",
				a.Network, first.Master, d.Device, d.Driver, d.Interface, first.Master)
		}
	case !masterPlugins[first.Type] && d.ID != "":
		alone = true
		on, err = a.WithDevice(d.ID)
	case first.Type == "host-device" && d.Interface != "":
		alone = true
		on, err = a.withKey("device", d.Interface)
	default:
		err = reason.Errorf(reason.DeviceMismatch, "network %s, whose plugin is %s, cannot run on device %s: driver %s publishes no attribute that says which it is: %s and host-device need …/%s, other plugins need %s or %s",
			a.Network, first.Type, d.Device, d.Driver, strings.Join(slices.Sorted(maps.Keys(masterPlugins)), ", "), interfaceAttributes[0], AttributeDeviceID, attributePCIBusID)
	}
	on.On = &d
	return on, alone, err
}

// NeedsInPod returns the interface that another driver has to move into the pod before the first plugin runs, or "".
func (a Attachment) NeedsInPod() string {
	if first := a.firstPlugin(); a.On != nil && first.LinkInContainer {
		return first.Master
	}
	return ""
}

// withKey returns the attachment with a key of the first plugin of its chain.
func (a Attachment) withKey(key, value string) (Attachment, error) {
	first := true
	conflist, err := editPlugins(a.Conflist, func(plugin object) error {
		if first {
			plugin[key], first = mustJSON(value), false
		}
		return nil
	})
	if err != nil {
		return Attachment{}, reason.Errorf(reason.DeviceMismatch, "running network %s on interface %s: %w", a.Network, value, err)
	}
	a.Conflist = conflist
	return a, nil
}

// AssignOtherDevices assigns a device of its pool to each network, and returns the devices in the
// order of the networks. As Multus does, it takes the devices of a pool in the order of their IDs.
// Unlike Multus, it returns an error unless each network gets exactly one device and no device of
// its pool is left.
func AssignOtherDevices(networks []Network, devices []OtherDriverDevice) ([]OtherDriverDevice, error) {
	byPool := map[string][]OtherDriverDevice{}
	for _, d := range devices {
		byPool[d.ResourceName] = append(byPool[d.ResourceName], d)
	}
	users := map[string][]string{}
	for _, n := range networks {
		users[n.ResourceName] = append(users[n.ResourceName], n.Ref.String())
	}
	for _, n := range networks {
		pool := n.ResourceName
		if err := enough(pool, users[pool], byPool[pool]); err != nil {
			return nil, err
		}
		slices.SortFunc(byPool[pool], func(a, b OtherDriverDevice) int { return cmp.Compare(a.ID, b.ID) })
	}
	var out []OtherDriverDevice
	for _, n := range networks {
		out = append(out, byPool[n.ResourceName][0])
		byPool[n.ResourceName] = byPool[n.ResourceName][1:]
	}
	return out, nil
}

// enough returns an error unless one pool has exactly one device for each network.
func enough(pool string, networks []string, devices []OtherDriverDevice) error {
	seen := map[string]bool{}
	var named []string
	for _, d := range devices {
		if seen[d.ID] {
			return reason.Errorf(reason.DeviceMismatch, "resource pool %s: device %s was allocated to the pod twice, and a device serves one network: request another device", pool, d)
		}
		seen[d.ID] = true
		named = append(named, d.String())
	}
	drawing := fmt.Sprintf("%s from resource pool %s", drawn(networks), pool)
	switch {
	case len(devices) == 0:
		return reason.Errorf(reason.DeviceMismatch, "%s, and the pod's claims have no device of it: no allocated device of another driver has the attributes %s=%s and %s: "+
			"request one in a claim of the pod, or request the network's DeviceClass if nadra serves the pool",
			drawing, AttributeResourceName, pool, AttributeDeviceID)
	case len(devices) < len(networks):
		return reason.Errorf(reason.DeviceMismatch, "%s, and the pod's claims have only %s, which another network uses: request %d devices", drawing, strings.Join(named, ", "), len(networks))
	case len(devices) > len(networks):
		return reason.Errorf(reason.DeviceMismatch, "%s, and the pod's claims have %s: it is ambiguous which device is for which network: request as many devices as networks", drawing, strings.Join(named, " and "))
	}
	return nil
}

// drawn returns networks and verb of a sentence about what they draw from.
func drawn(networks []string) string {
	if len(networks) == 1 {
		return "network " + networks[0] + " draws"
	}
	return "networks " + strings.Join(networks, ", ") + " draw"
}
