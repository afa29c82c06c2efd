package attachment

import "encoding/json"

// masterPlugins are the CNI plugins that put the new interface on the host's
// interface which their key "master" names: the reference plugins macvlan,
// ipvlan and vlan, and Mellanox' ipoib. Other plugins may be given the key and
// do not read it: bridge, ptp and host-device of the reference plugins, sriov,
// ib-sriov and macvtap (which go by deviceID), bond (which goes by links).
var masterPlugins = map[string]bool{"macvlan": true, "ipvlan": true, "vlan": true, "ipoib": true}

// masterOf returns the host's interface that a plugin of the given type needs,
// and "" if it needs none: it does not read the key, or linkInContainer makes it
// an interface of the pod.
func masterOf(pluginType string, keys object) string {
	if !masterPlugins[pluginType] {
		return ""
	}
	var inPod bool
	if json.Unmarshal(keys["linkInContainer"], &inPod) == nil && inPod {
		return ""
	}
	return text(keys, "master")
}
