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
	var plugins []json.RawMessage
	if json.Unmarshal(list["plugins"], &plugins) != nil {
		return nil
	}
	for _, raw := range plugins {
		out = append(out, describe(sortedKeys(raw)))
	}
	return out
}

// describe reads the configuration of a plugin, with sorted keys.
func describe(raw json.RawMessage) Plugin {
	keys, err := spelled(raw, pluginKeys...)
	if err != nil { // other runtimes attach such a configuration
		_ = json.Unmarshal(raw, &keys)
	}
	var conf struct {
		Type         string          `json:"type"`
		IPAM         ipamKeys        `json:"ipam"`
		Capabilities map[string]bool `json:"capabilities"`
		AddRoutes    []route         `json:"addroutes"`
	}
	_ = json.Unmarshal(raw, &conf)
	p := Plugin{
		Type:   conf.Type,
		IPAM:   conf.IPAM.ipam(),
		Master: masterOf(conf.Type, keys),
		Mode:   text(keys, "mode"),
		MAC:    text(keys, "mac"),
		VLAN:   cmp.Or(number(keys, "vlan"), number(keys, "vlanId"), number(keys, "vlanID")),
	}
	p.Routes = slices.Concat(p.IPAM.Routes, conf.AddRoutes)
	for capability, declared := range conf.Capabilities {
		if declared {
			p.Capabilities = append(p.Capabilities, capability)
		}
	}
	slices.Sort(p.Capabilities)
	p.Once = isOnce(p, keys)
	return p
}

// isOnce reports whether a node can have a plugin's interface once: one of vlan, because an interface of the host has
// each VLAN once, also if it is in a pod, and the device that host-device names.
func isOnce(p Plugin, keys object) bool {
	switch p.Type {
	case "vlan":
		return p.Master != ""
	case "host-device":
		return slices.ContainsFunc([]string{"device", "hwaddr", "kernelpath", "pciBusID"}, func(key string) bool { return text(keys, key) != "" })
	}
	return false
}

// number returns the value of a key if it is a number, or 0.
func number(o object, key string) int {
	var n int
	if json.Unmarshal(o[key], &n) != nil {
		return 0
	}
	return n
}
