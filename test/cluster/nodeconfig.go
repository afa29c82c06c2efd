package cluster

import "maps"

type object = map[string]any

// kubeletConfig returns a KubeletConfiguration for the container runtime at a socket and a
// root directory. An override replaces a whole top-level field.
func kubeletConfig(ip, group, socket, root string, overrides object) object {
	config := object{
		"apiVersion": "kubelet.config.k8s.io/v1beta1",
		"kind":       "KubeletConfiguration",
		"address":    ip,
		// Only the cluster's own network leads here.
		"authentication": object{"anonymous": object{"enabled": true}, "webhook": object{"enabled": false}},
		"authorization":  object{"mode": "AlwaysAllow"},

		"cgroupDriver":             "cgroupfs",
		"cgroupRoot":               group,
		"failCgroupV1":             false,
		"containerRuntimeEndpoint": "unix://" + socket,

		"enableControllerAttachDetach": false,
		"evictionHard": object{
			"memory.available": "50Mi", "nodefs.available": "0%", "imagefs.available": "0%", "nodefs.inodesFree": "0%",
		},
		"imageGCHighThresholdPercent": 100,
		// The kubelet lacks the capability to raise the limit.
		"maxOpenFiles": 20000,
		"oomScoreAdj":  0,

		"makeIPTablesUtilChains": false,
		"resolvConf":             "",
		// The kubelet retries failures at this interval; the default is a minute.
		"syncFrequency": "2s",
		// The default is below /usr of the real machine.
		"volumePluginDir": root + "/volume-plugins",
	}
	maps.Copy(config, overrides)
	return config
}

// defaultNetwork returns the CNI configuration of the pods' first interface, which has an
// address of each subnet. It keeps addresses below /run, because a reboot ends the pods.
func defaultNetwork(subnets ...string) object {
	var ranges [][]object
	for _, subnet := range subnets {
		ranges = append(ranges, []object{{"subnet": subnet}})
	}
	return object{
		"cniVersion": "1.0.0",
		"name":       "default",
		"plugins": []object{{
			"type":             "bridge",
			"bridge":           "cni0",
			"isDefaultGateway": true,
			"ipam": object{
				"type":    "host-local",
				"dataDir": "/run/cni-addresses",
				"ranges":  ranges,
			},
		}},
	}
}
