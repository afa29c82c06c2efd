package attachment

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path"
	"regexp"
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
	// ID is what CNI plugins know as deviceID, and Interface the name of the device's interface on the host, as its
	// driver published them when the claim was prepared. At least one of them is needed.
	ID        string `json:"id,omitempty"`
	Interface string `json:"interface,omitempty"`
	// PCIAddress is the address of the device, if it is a PCI function.
	PCIAddress string `json:"pciAddress,omitempty"`
	// InPod is the name of the interface in the pod if the driver had reported it in the claim by then.
	InPod string `json:"inPod,omitempty"`
	// Claim is the name of the ResourceClaim. Driver, Pool, Device and ShareID are from the allocation.
	Claim   string `json:"claim"`
	Driver  string `json:"driver"`
	Pool    string `json:"pool"`
	Device  string `json:"device"`
	ShareID string `json:"shareID,omitempty"`
	// Alone is set by OnDevice if the network takes the device for itself.
	Alone bool `json:"-"`
	// AdminAccess is true if the claim does not allocate the device to the pod: another pod may have it.
	AdminAccess bool `json:"-"`
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

// pciAddress matches the address of a PCI function, as the kernel writes it.
var pciAddress = regexp.MustCompile(`^[0-9a-f]{4,}:[0-9a-f]{2}:[0-9a-f]{2}\.[0-7]$`)

// interfaceAttributes are the names of attributes, in any driver's domain, that have the interface's name: DRANET
// has dra.net/ifName.
var interfaceAttributes = []string{"ifName", "interfaceName"}

// Published returns the device with what its driver publishes of it. An interface's name without a domain, or in the
// driver's own, goes before names in other domains; a name that no interface can have, such as a long altname, does
// not count. If names differ there is none: Published refuses a device that has no ID either.
func (d OtherDriverDevice) Published(attributes map[resourceapi.QualifiedName]resourceapi.DeviceAttribute) (OtherDriverDevice, error) {
	text := func(name resourceapi.QualifiedName) string { return ptr.Deref(attributes[name].StringValue, "") }
	d.ResourceName, d.ID = text(AttributeResourceName), cmp.Or(text(AttributeDeviceID), text(attributePCIBusID))
	for _, address := range []string{d.ID, text(attributePCIBusID)} {
		if pciAddress.MatchString(address) {
			d.PCIAddress = address
		}
	}
	names := map[bool][]string{} // by whether the domain is the driver's own
	for name := range attributes {
		if slices.Contains(interfaceAttributes, path.Base(string(name))) && text(name) != "" && isInterface(text(name)) {
			domain := path.Dir(string(name))
			own := domain == "." || domain == d.Driver
			names[own] = append(names[own], text(name))
		}
	}
	found := slices.Compact(slices.Sorted(slices.Values(names[len(names[true]) > 0])))
	if len(found) > 1 && d.ID == "" {
		return d, reason.Errorf(reason.DeviceMismatch, "driver %s publishes device %s with several names of its interface: %s", d.Driver, d.Device, strings.Join(found, ", "))
	}
	if len(found) == 1 {
		d.Interface = found[0]
	}
	return d, nil
}

// isInterface reports whether an interface can have a name.
func isInterface(name string) bool {
	named := v1alpha1.AttachmentConfig{Interface: name}
	return len(named.Validate(nil)) == 0
}

// firstPlugin has what OnDevice needs of the first plugin of a chain.
type firstPlugin struct {
	Type, Master, Mode, Device, HWAddr, KernelPath string
	LinkInContainer                                bool
}

// firstPlugin returns the first plugin of the chain. The configuration was parsed before, and has one.
func (a Attachment) firstPlugin() (first firstPlugin, err error) {
	var list struct{ Plugins []json.RawMessage }
	if err := json.Unmarshal(a.Conflist, &list); err != nil || len(list.Plugins) == 0 {
		return first, cmp.Or(err, errors.New("it has no plugin"))
	}
	err = decodeJSON(list.Plugins[0], &first)
	first.LinkInContainer = first.LinkInContainer && masterPlugins[first.Type] && first.Type != "ipoib" // others ignore it
	return first, err
}

// alone reports whether the plugin takes a device for itself. Only a master serves several networks.
func (p firstPlugin) alone() bool { return !masterPlugins[p.Type] || p.Mode == "passthru" }

// deviceless are CNI plugins that read no device: those of the reference plugins, and bond, which reads links.
var deviceless = map[string]bool{"bridge": true, "ptp": true, "dummy": true, "tap": true, "loopback": true, "bond": true}

// OnDevice returns the attachment on a device of another driver. The first plugin of the chain decides how: macvlan and
// its like get the device's interface as their master, on the host or in the pod; host-device gets a device without
// an ID by its interface; other plugins get the device's ID as WithDevice gives it to them. The device serves several
// networks only as a master, and not in macvlan's mode passthru. OnDevice refuses a device whose driver does not publish
// what the plugin needs, and a NAD that names another device. A master in the pod may have a name of its own there, but
// not that of another interface of the pod: eth0, lo and taken, the names of the pod's networks.
func (a Attachment) OnDevice(d OtherDriverDevice, taken ...string) (Attachment, error) {
	mismatch := func(format string, args ...any) (Attachment, error) {
		return a, reason.Errorf(reason.DeviceMismatch, "running network %s on device %s of driver %s: %w", a.Network, d.Device, d.Driver, fmt.Errorf(format, args...))
	}
	for _, published := range []v1alpha1.AttachmentConfig{{Interface: d.Interface, DeviceID: d.ID}, {Interface: d.InPod}} {
		if err := v1alpha1.AsError(published.Validate(field.NewPath("attributes"))); err != nil {
			return mismatch("%w", err)
		}
	}
	first, err := a.firstPlugin()
	if err != nil {
		return mismatch("reading the first plugin of the NAD: %w", err)
	}
	onMaster := masterPlugins[first.Type]
	if d.Alone = first.alone(); !d.Alone {
		d.PCIAddress = "" // the pod does not have the function
	}
	there := d.Interface
	if first.LinkInContainer {
		there = d.InPod
	}
	master := cmp.Or(first.Master, there, d.Interface)
	a.On = &d
	switch {
	case (d.InPod != "" || movers[d.Driver]) && !first.LinkInContainer:
		return mismatch("the driver moves the device into the pod itself, where plugin %s does not look for it: "+
			"use a network of macvlan, ipvlan or vlan with linkInContainer, or a driver that leaves the device on the host", first.Type)
	case deviceless[first.Type]:
		return mismatch("plugin %s reads no device: remove deviceFrom, or use a network of another plugin", first.Type)
	case d.Alone && d.ShareID != "":
		return mismatch("the claim has a share of it (%s), and plugin %s takes the device whole: use a network of macvlan (not in mode passthru), ipvlan or vlan, or request a device that is not shared", d.ShareID, first.Type)
	case first.Type == "host-device" && (first.HWAddr+first.KernelPath != "" || first.Device != "" && first.Device != d.Interface):
		return mismatch("device %q, hwaddr %q and kernelpath %q of the NAD go before the device, which is interface %q: leave them out of the NAD", first.Device, first.HWAddr, first.KernelPath, d.Interface)
	case onMaster && there != "" && master != there:
		return mismatch("the NAD has the master %s, and the device is interface %s: leave master out of the NAD, or request the device of %s", master, there, master)
	case first.LinkInContainer && slices.Contains(append(taken, "eth0", "lo"), master):
		return mismatch("the master %s is another interface of the pod: write the name that the driver gives the device's interface in the pod as master of the NAD", master)
	case onMaster && (d.Interface != "" || first.LinkInContainer && master != ""):
		return a.withKey("master", master)
	case !onMaster && d.ID != "":
		return a.WithDevice(d.ID)
	case first.Type == "host-device" && d.Interface != "":
		return a.withKey("device", d.Interface)
	}
	return mismatch("the driver publishes no attribute that says to plugin %s which it is: %s and host-device need …/%s, other plugins need %s or %s",
		first.Type, strings.Join(slices.Sorted(maps.Keys(masterPlugins)), ", "), interfaceAttributes[0], AttributeDeviceID, attributePCIBusID)
}

// NeedsInPod returns the interface that another driver has to move into the pod before the first plugin runs, or "".
func (a Attachment) NeedsInPod() string {
	if a.On == nil {
		return ""
	}
	if first, err := a.firstPlugin(); err == nil && first.LinkInContainer {
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
// its pool is left. It takes no device to which the pod has administrative access only.
func AssignOtherDevices(networks []Network, devices []OtherDriverDevice) ([]OtherDriverDevice, error) {
	byPool, administered := map[string][]OtherDriverDevice{}, map[string]OtherDriverDevice{}
	for _, d := range devices {
		if d.AdminAccess {
			administered[d.ResourceName] = d
			continue
		}
		byPool[d.ResourceName] = append(byPool[d.ResourceName], d)
	}
	users := map[string][]string{}
	for _, n := range networks {
		users[n.ResourceName] = append(users[n.ResourceName], n.Ref.String())
	}
	for _, n := range networks {
		pool := n.ResourceName
		if d, found := administered[pool]; found && len(byPool[pool]) < len(users[pool]) {
			return nil, reason.Errorf(reason.DeviceMismatch, "%s from resource pool %s, and a claim of the pod has adminAccess to %s, which does not allocate it: another pod may have it: remove adminAccess from the request",
				drawn(users[pool]), pool, d)
		}
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
		if d.ShareID != "" {
			return reason.Errorf(reason.DeviceMismatch, "resource pool %s: the pod has a share (%s) of device %s, and a network takes the device whole: request a device that is not shared", pool, d.ShareID, d)
		}
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
