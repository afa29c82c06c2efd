package attachment

import "encoding/json"

// masterPlugins are the CNI plugins that create the interface on the host's interface which their
// key "master" names: the reference plugins macvlan, ipvlan and vlan, and Mellanox' ipoib. Other
// plugins ignore the key: bridge, ptp and host-device of the reference plugins, sriov, ib-sriov and
// macvtap (which use deviceID), bond (which uses links).
var masterPlugins = map[string]bool{"macvlan": true, "ipvlan": true, "vlan": true, "ipoib": true}

// masterOf returns the host's interface that a plugin of the given type needs. It returns "" if the
// plugin does not read the key, or if linkInContainer makes the master an interface of the pod.
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
