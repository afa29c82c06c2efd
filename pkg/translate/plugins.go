package translate

import (
	"encoding/json"
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// firstPlugin returns the keys of a network's first plugin.
func firstPlugin(n attachment.Network) map[string]json.RawMessage {
	var list struct {
		Plugins []map[string]json.RawMessage
	}
	if json.Unmarshal(n.Conflist, &list) != nil || len(list.Plugins) == 0 {
		return nil
	}
	return list.Plugins[0]
}

// agentOf returns the agent that attaches a network by watching pods, as antrea-agent does for its
// secondary networks, or "". The CNI plugin antrea attaches only the pod's eth0.
func agentOf(n attachment.Network) string {
	if len(n.Plugins) > 0 && n.Plugins[0].Type == "antrea" && firstPlugin(n)["networkType"] != nil {
		return "antrea-agent"
	}
	return ""
}

// deviceKeys has the keys by which a configuration names the device, by plugins that move a device
// into the pod.
var deviceKeys = map[string][]string{
	"sriov":              {"deviceID"},
	"ib-sriov":           {"deviceID"},
	"accelerated-bridge": {"deviceID"},
	"host-device":        {"device", "hwaddr", "kernelpath", "pciBusID", "deviceID"},
}

// poolless returns the plugin that moves a device into the pod if the configuration does not name
// the device, or "".
func poolless(n attachment.Network) string {
	if len(n.Plugins) == 0 {
		return ""
	}
	plugin := n.Plugins[0].Type
	keys, moves := deviceKeys[plugin]
	first := firstPlugin(n)
	if !moves || slices.ContainsFunc(keys, func(key string) bool { return first[key] != nil }) {
		return ""
	}
	return plugin
}
