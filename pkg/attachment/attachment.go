package attachment

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Attachment is what CNI ADD and DEL need besides the sandbox.
type Attachment struct {
	Network NetworkRef `json:"network"`
	// Interface is CNI_IFNAME.
	Interface string `json:"interface"`
	// CNIName is the name of the CNI network.
	CNIName string `json:"cniName"`
	// Conflist is the configuration for ADD and DEL: the network's, with the selection's arguments
	// merged into every plugin.
	Conflist json.RawMessage `json:"conflist"`
	// CapabilityArgs has the runtimeConfig values that the selection requests, by capability.
	// libcni passes each to the plugins that declare the capability.
	CapabilityArgs map[string]json.RawMessage `json:"capabilityArgs,omitempty"`
	// CNIArgs has the CNI_ARGS besides those that name the pod.
	CNIArgs [][2]string `json:"cniArgs,omitempty"`
	// Args are the cni-args that the selection requests. Conflist has them merged.
	Args map[string]json.RawMessage `json:"args,omitempty"`
	// ResourceName is the resource pool from which the network draws, or empty.
	ResourceName string `json:"resourceName,omitempty"`
	// DefaultRoute has the gateways of the pod's default route, the preferred one first: the route
	// must use this interface only. Nil changes nothing; an empty list only removes the default
	// route (behaviour B7).
	DefaultRoute *[]string `json:"defaultRoute,omitempty"`
	// On is the device of another driver on which the network runs, because the claim names it, or nil.
	On *OtherDriverDevice `json:"on,omitempty"`
}

// NewAttachment resolves a selection against its network. iface is the interface's name in the
// pod. It ignores IPAMClaimReference, which plugins read from the pod (behaviour A2-25).
func NewAttachment(n Network, s Selection, iface string) (Attachment, error) {
	if err := s.CheckPrefixes(n.Plugins); err != nil {
		return Attachment{}, err
	}
	if err := n.CheckNoDeviceFrom(); err != nil && s.DeviceFrom == "" {
		return Attachment{}, err
	}
	conflist, err := mergeCNIArgs(n.Conflist, s.CNIArgs)
	if err != nil {
		return Attachment{}, fmt.Errorf("attaching network %s as %s: cni-args: %w", n.Ref, iface, err)
	}
	return Attachment{
		Network:        n.Ref,
		Interface:      iface,
		CNIName:        n.CNIName,
		Conflist:       conflist,
		CapabilityArgs: capabilityArgs(s),
		CNIArgs:        cniArgs(s),
		Args:           encoded(s.CNIArgs),
		ResourceName:   n.ResourceName,
		DefaultRoute:   s.DefaultRoute,
	}, nil
}

// Renewed returns the attachment with the network's present configuration and what the pod's selection
// and device have set in it. An attachment keeps its configuration if the network draws from another
// resource pool now, of which the pod has no device.
func (a Attachment) Renewed(n Network) (Attachment, error) {
	if n.ResourceName != a.ResourceName {
		return a, nil
	}
	if err := n.CheckNoDeviceFrom(); err != nil && a.On == nil {
		return a, err
	}
	conflist, err := mergeCNIArgs(n.Conflist, a.Args)
	if err != nil {
		return Attachment{}, fmt.Errorf("attaching network %s as %s: cni-args: %w", n.Ref, a.Interface, err)
	}
	device, bound := a.boundDevice()
	was, _ := a.firstPlugin() // the configuration of a plan
	a.CNIName, a.Conflist = n.CNIName, conflist
	switch {
	case a.On != nil:
		if a, err = a.OnDevice(*a.On); err == nil && a.On.Alone != was.alone() {
			err = reason.Errorf(reason.DeviceMismatch, "network %s was on device %s of driver %s with a plugin of another kind when the claim was prepared: delete the pod", a.Network, a.On.Device, a.On.Driver)
		}
		return a, err
	case bound:
		return a.WithDevice(device)
	}
	return a, nil
}

// IsPlain reports whether the pod's selection requests nothing of its own of the network, as most do.
func (a Attachment) IsPlain() bool {
	return len(a.CapabilityArgs) == 0 && len(a.CNIArgs) == 0 && len(a.Args) == 0 && a.DefaultRoute == nil
}

// boundDevice returns the ID of the device that WithDevice has set. A device that the selection names is
// in no plugin's configuration.
func (a Attachment) boundDevice() (id string, ok bool) {
	var list struct {
		Plugins []struct {
			PCIBusID string `json:"pciBusID"`
		} `json:"plugins"`
	}
	if json.Unmarshal(a.CapabilityArgs["deviceID"], &id) != nil || json.Unmarshal(a.Conflist, &list) != nil {
		return "", false
	}
	return id, id != "" && len(list.Plugins) > 0 && list.Plugins[0].PCIBusID == id
}

// WithDevice returns the attachment with the hardware device that was allocated for it. Every
// plugin of the chain gets the device as "deviceID" and "pciBusID", and as the capability
// "deviceID" (behaviour B9). It takes precedence over a device that the selection names.
func (a Attachment) WithDevice(deviceID string) (Attachment, error) {
	if deviceID == "" {
		return Attachment{}, reason.Errorf(reason.DeviceMismatch, "binding an attachment to a device: the device's ID is empty")
	}
	id := mustJSON(deviceID)
	conflist, err := editPlugins(a.Conflist, func(plugin object) error {
		plugin["deviceID"], plugin["pciBusID"] = id, id
		return nil
	})
	if err != nil {
		return Attachment{}, reason.Errorf(reason.DeviceMismatch, "binding network %s to device %s: %w", a.Network, deviceID, err)
	}
	args := map[string]json.RawMessage{"deviceID": id}
	for capability, value := range a.CapabilityArgs {
		if capability != "deviceID" {
			args[capability] = value
		}
	}
	a.Conflist, a.CapabilityArgs = conflist, args
	return a, nil
}

// capabilityArgs returns the arguments that the selection requests, by CNI's conventions. It does
// not check whether a plugin declares the capability, as Multus does not (behaviour A2-16).
func capabilityArgs(s Selection) map[string]json.RawMessage {
	args := map[string]json.RawMessage{}
	if len(s.IPs) > 0 {
		args["ips"] = mustJSON(s.IPs)
	}
	if s.MAC != "" {
		args["mac"] = mustJSON(s.MAC)
	}
	if s.InfinibandGUID != "" {
		args["infinibandGUID"] = mustJSON(s.InfinibandGUID)
	}
	if len(s.PortMappings) > 0 {
		args["portMappings"] = mustJSON(s.PortMappings)
	}
	if s.Bandwidth != nil {
		args["bandwidth"] = mustJSON(s.Bandwidth)
	}
	if s.DeviceID != "" {
		args["deviceID"] = mustJSON(s.DeviceID)
	}
	if len(args) == 0 {
		return nil
	}
	return args
}

// cniArgs returns the CNI_ARGS of a selection, in Multus' order. They are for plugins that do not
// declare the capability: public networks with static IPAM rely on them (behaviours A2-16, A2-17,
// B10).
func cniArgs(s Selection) [][2]string {
	var args [][2]string
	if s.MAC != "" {
		args = append(args, [2]string{"MAC", s.MAC})
	}
	if len(s.IPs) > 0 {
		args = append(args, [2]string{"IP", strings.Join(s.IPs, ",")})
	}
	return args
}
