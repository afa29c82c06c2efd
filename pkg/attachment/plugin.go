package attachment

import (
	"cmp"
	"encoding/json"
	"slices"

	"github.com/containernetworking/cni/libcni"
)

// Plugin is what nadra reads of one plugin's configuration, to describe the
// network. A value of a type that nadra does not expect counts as absent: what
// a plugin's keys mean is the plugin's affair.
type Plugin struct {
	// Type is the name of the plugin's binary.
	Type string `json:"type"`
	// IPAM is the name of the IPAM plugin's binary; empty means none.
	IPAM string `json:"ipam,omitempty"`
	// Capabilities are those declared as true, sorted.
	Capabilities []string `json:"capabilities,omitempty"`
	// Master is the host's interface below the new one; empty unless the plugin
	// reads the key (masterPlugins), and for an interface of the pod
	// (linkInContainer).
	Master string `json:"master,omitempty"`
	// Mode is the plugin's mode, e.g. macvlan's "bridge".
	Mode string `json:"mode,omitempty"`
	// VLAN is the VLAN ID from "vlan", "vlanId" or "vlanID"; 0 means none.
	VLAN int `json:"vlan,omitempty"`
	// Ranges are host-local's sets of ranges. An attachment takes one address
	// from each set.
	Ranges [][]Range `json:"ranges,omitempty"`
	// DataDir is where host-local keeps its leases; empty means its default.
	DataDir string `json:"dataDir,omitempty"`
}

// Range is one range of addresses of the host-local IPAM plugin, as the
// configuration spells it.
type Range struct {
	Subnet  string `json:"subnet"`
	Start   string `json:"rangeStart,omitempty"`
	End     string `json:"rangeEnd,omitempty"`
	Gateway string `json:"gateway,omitempty"`
}

func describe(conf *libcni.PluginConfig) Plugin {
	// libcni made these bytes from an object.
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
	return p
}

func number(o object, key string) int {
	var n int
	if json.Unmarshal(o[key], &n) != nil {
		return 0
	}
	return n
}

// hostLocal reads both spellings that host-local knows. A range at the top
// comes first, as a set of its own.
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
