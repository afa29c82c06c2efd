package attachment

// masterPlugins are the CNI plugins that create the interface on the host's interface which their
// key "master" names: the reference plugins macvlan, ipvlan and vlan, and Mellanox' ipoib. Other
// plugins ignore the key: bridge, ptp and host-device of the reference plugins, sriov, ib-sriov and
// macvtap (which use deviceID), bond (which uses links).
var masterPlugins = map[string]bool{"macvlan": true, "ipvlan": true, "vlan": true, "ipoib": true}
