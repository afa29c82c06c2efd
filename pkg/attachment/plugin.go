package attachment

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/containernetworking/cni/libcni"
)

// Plugin is what nadra reads of one plugin's configuration in order to describe the network. A
// value of an unexpected type counts as absent, because only the plugin defines its keys.
type Plugin struct {
	// Type is the name of the plugin's binary.
	Type string `json:"type"`
	// IPAM is the name of the IPAM plugin's binary; empty means none.
	IPAM string `json:"ipam,omitempty"`
	// Capabilities has the capabilities declared as true, sorted.
	Capabilities []string `json:"capabilities,omitempty"`
	// Master is the host's interface below the new one. It is empty unless the plugin reads the key
	// (masterPlugins), and for an interface of the pod (linkInContainer).
	Master string `json:"master,omitempty"`
	// Mode is the plugin's mode, such as macvlan's "bridge".
	Mode string `json:"mode,omitempty"`
	// VLAN is the VLAN ID from "vlan", "vlanId" or "vlanID"; 0 means none.
	VLAN int `json:"vlan,omitempty"`
	// Ranges has host-local's sets of ranges. An attachment takes one address from each set.
	Ranges [][]Range `json:"ranges,omitempty"`
	// DataDir is the directory of host-local's leases; empty means its default.
	DataDir string `json:"dataDir,omitempty"`
	// Once is true if a node can have the plugin's interface once at a time.
	Once bool `json:"once,omitempty"`
}

// Range is one range of addresses of the host-local IPAM plugin, as the configuration has it.
type Range struct {
	Subnet  string `json:"subnet"`
	Start   string `json:"rangeStart,omitempty"`
	End     string `json:"rangeEnd,omitempty"`
	Gateway string `json:"gateway,omitempty"`
}

// describe reads the configuration of a plugin.
func describe(conf *libcni.PluginConfig) Plugin {
	// libcni encoded these bytes from an object.
	var keys object
	_ = json.Unmarshal(conf.Bytes, &keys)
	p := Plugin{
		Type:   conf.Network.Type,
		IPAM:   conf.Network.IPAM.Type,
		Master: masterOf(conf.Network.Type, keys),
		Mode:   text(keys, "mode"),
		VLAN:   cmp.Or(number(keys, "vlan"), number(keys, "vlanId"), number(keys, "vlanID")),
	}
	for capability, declared := range conf.Network.Capabilities {
		if declared {
			p.Capabilities = append(p.Capabilities, capability)
		}
	}
	slices.Sort(p.Capabilities)
	if p.IPAM == "host-local" {
		p.Ranges, p.DataDir = hostLocal(keys["ipam"])
	}
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

// hostLocal reads both forms of host-local's ranges. A range at the top level comes first, as a set
// of its own.
func hostLocal(raw json.RawMessage) ([][]Range, string) {
	var ipam struct {
		Range
		Ranges  [][]Range
		DataDir string
	}
	if json.Unmarshal(raw, &ipam) != nil {
		return nil, ""
	}
	if ipam.Subnet != "" {
		return append([][]Range{{ipam.Range}}, ipam.Ranges...), ipam.DataDir
	}
	return ipam.Ranges, ipam.DataDir
}
