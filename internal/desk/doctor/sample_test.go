package doctor

import (
	"github.com/nadra-dev/nadra/internal/probe"
)

// ready returns a cluster for which every check passes, or does not apply.
func ready() Capabilities {
	return Capabilities{
		APIVersion: APIVersion, Kind: capabilitiesKind, Source: "cluster lab",
		Server: Server{
			Version: "v1.36.3", ResourceVersions: []string{"v1", "v1beta2"}, Resources: append([]string{}, draResources...),
			Gates: map[string]bool{"DRAConsumableCapacity": true, "DRAExtendedResource": true, "DRAPartitionableDevices": false},
		},
		Nodes: []Node{readyNode("node-1"), readyNode("node-2")},
		Networks: []Network{
			{Namespace: "ran", Name: "f1", Plugins: []string{"macvlan", "tuning"}, IPAM: []string{"host-local"}, Masters: []string{"eth1"}},
			{Namespace: "shop", Name: "lan", Plugins: []string{"bridge"}, IPAM: []string{"dhcp"}},
		},
		Multus: []Multus{{
			Namespace: "kube-system", DaemonSet: "kube-multus-ds", Image: "multus-cni:v4.2.2-thick", Thick: true,
			ConfigMap: "kube-system/multus-daemon-config", Settings: &probe.MultusSettings{NamespaceIsolation: true, BinDir: "/opt/cni/bin"},
		}},
		Nadra: &Nadra{
			Namespace: "nadra", DaemonSet: "nadra-node", Image: "nadra-node:dev", Ready: 2, Desired: 2, ReadyNodes: []string{"node-1", "node-2"},
			Args: []string{"--node-name=$(NODE_NAME)", "--namespace-isolation"},
		},
		Controller: &Controller{Namespace: "nadra-system", Deployment: "nadra-controller", Ready: 2, Desired: 2},
		Webhook:    &Webhook{Configuration: "nadra-controller", Namespace: "nadra-system", Service: "nadra-webhook", Ready: 2},
		Published:  &Published{Slices: 2, Devices: 2},
	}
}

func readyNode(name string) Node {
	return Node{
		Name: name, Kubelet: "v1.36.3", Runtime: "containerd://2.2.6", OS: "linux", Image: "Debian GNU/Linux 12", Kernel: "6.1.0-18-amd64", Arch: "amd64",
		Config: &KubeletConfig{TopologyManagerPolicy: "none", CPUManagerPolicy: "none"},
		Probe: &probe.Report{
			APIVersion: probe.APIVersion, Kind: probe.Kind,
			NRI:     probe.NRI{Socket: "/var/run/nri/nri.sock", Found: true, Answers: true, Runtime: "containerd", RuntimeVersion: "v2.2.6", RequestTimeoutMillis: 2000},
			CDI:     []probe.Dir{{Path: "/etc/cdi"}, {Path: "/var/run/cdi", Found: true}},
			BinDirs: []probe.BinDir{{Path: "/opt/cni/bin", Found: true, Plugins: []string{"bridge", "dhcp", "host-local", "macvlan", "tuning"}}},
			ConfDirs: []probe.ConfDir{{Path: "/etc/cni/net.d", Found: true, Files: []probe.ConfFile{
				{File: "10-pods.conflist", Network: "pods", Plugins: []string{"ptp", "portmap"}},
			}}},
			Interfaces: []probe.Interface{{Name: "eth0", Kind: probe.Physical, DefaultRoute: true}, {Name: "eth1", Kind: probe.Physical}, {Name: "lo", Kind: probe.Virtual}},
			DHCP:       true,
		},
	}
}

// fromOutside returns what is known without any right and any probe.
func fromOutside() Capabilities {
	c := Capabilities{APIVersion: APIVersion, Kind: capabilitiesKind, Nodes: []Node{{Name: "node-1"}}}
	for _, part := range []string{
		PartVersion, PartGroups, PartGates, PartNodes, PartConfig, PartProbe, PartNetworks, PartMultus, PartComponents, PartPods, PartWebhook, PartSlices, PartPolicies, PartWhereabouts,
	} {
		c.Gaps = append(c.Gaps, Gap{Part: part, Reason: "not allowed to read it", Remedy: "the right to read " + part})
	}
	return c
}
