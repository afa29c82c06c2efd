package attachment

import (
	"cmp"
	"encoding/json"
	"slices"
)

// Plugin is what nadra reads of one plugin's configuration in order to describe the network. A
// value of an unexpected type counts as absent, because only the plugin defines its keys.
type Plugin struct {
	// Type is the name of the plugin's binary.
	Type string
	// IPAM is the configuration of the IPAM plugin. Its type is empty if there is none.
	IPAM IPAM
	// Capabilities has the capabilities declared as true, sorted.
	Capabilities []string
	// Master is the host's interface below the new one. It is empty unless the plugin reads the key
	// (masterPlugins), and for an interface of the pod (linkInContainer).
	Master string
	// Mode is the plugin's mode, such as macvlan's "bridge".
	Mode string
	// MAC is the hardware address that the plugin gives the interface of every pod.
	MAC string
	// VLAN is the VLAN ID from "vlan", "vlanId" or "vlanID"; 0 means none.
	VLAN int
	// Routes has the destinations of the routes of the IPAM configuration and of route-override.
	Routes []route
	// Once is true if a node can have the plugin's interface once at a time.
	Once bool
}

// PluginsOf describes the plugins of a configuration, which other runtimes may have written without a list. It
// returns none for one that conflistOf refuses, whose plugins do not run. It reads as libcni and the plugins do, so
// that no spelling of a key hides what runs: of a list exactly the key "plugins", and of a plugin its keys in their
// order, each in whatever case.
func PluginsOf(config json.RawMessage) (out []Plugin) {
	list, err := conflistOf(config)
	if err != nil {
		return nil
	}
	var plugins []pluginConf
	_ = json.Unmarshal(sortedKeys(list["plugins"]), &plugins)
	for _, conf := range plugins {
		out = append(out, conf.plugin())
	}
	return out
}

// pluginConf is the configuration of a plugin. encoding/json ignores the case of keys.
type pluginConf struct {
	Type, Master, Mode, MAC              string
	Device, HWAddr, KernelPath, PCIBusID string
	VLAN, VLANID                         int
	LinkInContainer                      bool
	IPAM                                 ipamKeys
	Capabilities                         map[string]bool
	AddRoutes                            []route
}

// plugin describes the plugin.
func (conf pluginConf) plugin() Plugin {
	p := Plugin{Type: conf.Type, IPAM: conf.IPAM.ipam(), Mode: conf.Mode, MAC: conf.MAC, VLAN: cmp.Or(conf.VLAN, conf.VLANID)}
	if masterPlugins[p.Type] && !conf.LinkInContainer {
		p.Master = conf.Master
	}
	p.Routes = slices.Concat(p.IPAM.Routes, conf.AddRoutes)
	for capability, declared := range conf.Capabilities {
		if declared {
			p.Capabilities = append(p.Capabilities, capability)
		}
	}
	slices.Sort(p.Capabilities)
	switch p.Type {
	case "vlan": // an interface of the host has each VLAN once, also if it is in a pod
		p.Once = p.Master != ""
	case "host-device":
		p.Once = cmp.Or(conf.Device, conf.HWAddr, conf.KernelPath, conf.PCIBusID) != ""
	}
	return p
}
