package doctor

// rules is the one table of what is checked, in the order of the report. What a
// check needs and nobody could read is unknown, never ok.
var rules = []rule{
	{
		id: "kubernetes-version", area: AreaCluster, cluster: kubernetesVersion,
		why: "nadra speaks resource.k8s.io/v1, which Kubernetes has since 1.34. Since 1.36 a network is one device that many pods share; before, there are copies of it.",
	},
	{
		id: "dra-api", area: AreaCluster, cluster: draAPI,
		why: "Claims, their templates, classes and slices are how pods get networks.",
	},
	{
		id: "feature-gates", area: AreaCluster, cluster: featureGates,
		why: "The API server drops fields of gates that are off.",
	},
	{
		id: "schedulers", area: AreaCluster, cluster: schedulers,
		why: "Who places a pod must allocate its claims. A scheduler that does not know them leaves such pods pending, or counts them wrongly.",
	},
	{
		id: "autoscalers", area: AreaCluster, cluster: autoscalers,
		why: "An autoscaler that does not simulate claims adds no node for pods that wait for a network, and none knows the networks of a group without nodes.",
	},
	{
		id: "nodes", area: AreaCluster, cluster: nodes,
		why: "What follows is about the nodes that could be read.",
	},
	{
		id: "nadra-driver", area: AreaCluster, cluster: nadraDriver,
		why: "A node without the driver offers no networks.",
	},
	{
		id: "network-configurations", area: AreaCluster, cluster: networkConfigurations,
		why: "No pod can use such a network, with Multus or without.",
	},
	{
		id: "network-plugins", area: AreaCluster, cluster: networkPlugins,
		why: "A network is offered on nodes that have every plugin of its chain. Pods that use one without any node stay pending.",
	},
	{
		id: "network-masters", area: AreaCluster, cluster: networkMasters,
		why: "A network is offered on nodes that have its master. Pods that use one without any node stay pending.",
	},
	{
		id: "node-system", area: AreaNode, node: nodeSystem,
		why: "nadra's driver is for Linux; pods with networks are not placed on other nodes.",
	},
	{
		id: "kubelet-version", area: AreaNode, node: linux(kubeletVersion),
		why: "The kubelet prepares claims by the API that it has since 1.34.",
	},
	{
		id: "runtime-version", area: AreaNode, node: linux(runtimeVersion),
		why: "Networks are attached by hooks of NRI, and containers are held by a device of CDI, both of the container runtime.",
	},
	{
		id: "kernel-version", area: AreaNode, node: linux(kernelVersion),
		why: "The gate tells a pod's network namespace by its cookie, which the kernel has since 5.14.",
	},
	{
		id: "kubelet-gates", area: AreaNode, node: linux(kubeletGates),
		why: "A kubelet without DynamicResourceAllocation does not prepare claims.",
	},
	{
		id: "topology-manager", area: AreaNode, node: linux(topologyManager),
		why: "The Topology Manager aligns CPUs with devices of device plugins. It does not see devices of claims: the kubelet does not align them by NUMA node.",
	},
	{
		id: "cpu-manager", area: AreaNode, node: linux(cpuManager),
		why: "Exclusive CPUs are chosen without regard to the NUMA node of a claim's device.",
	},
	{
		id: "nri", area: AreaNode, node: linux(nriAnswers),
		why: "Without NRI the runtime tells nobody of new sandboxes, and nothing is attached.",
	},
	{
		id: "nri-request-timeout", area: AreaNode, node: linux(nriTimeout),
		why: "A plugin that answers later is dropped, and its pod starts without its networks: NRI fails open. nadra stays below the timeout.",
	},
	{
		id: "cdi", area: AreaNode, node: linux(cdiDirs),
		why: "The gate that holds containers until their networks are there comes to them by a CDI spec, which the driver writes.",
	},
	{
		id: "cni-plugins", area: AreaNode, node: linux(cniPlugins),
		why: "The networks are not offered on this node.",
	},
	{
		id: "masters", area: AreaNode, node: linux(masters),
		why: "The networks are not offered on this node.",
	},
	{
		id: "cni-configuration", area: AreaNode, node: linux(cniConfiguration),
		why: "The runtime takes the first file by name for the pods' default network. nadra has no file there, and does not replace the default network.",
	},
	{
		id: "dhcp-daemon", area: AreaNode, node: linux(dhcpDaemon),
		why: "The IPAM plugin dhcp asks a daemon on the node, which has to run there as before.",
	},
	{
		id: "host-local", area: AreaNode, node: linux(hostLocal),
		why: "nadra's plugins use the same directory, so that addresses which Multus' pods hold are not given out again.",
	},
	{
		id: "probe-errors", area: AreaNode, node: linux(probeErrors),
		why: "What could not be read was not judged.",
	},
	{
		id: "multus", area: AreaMultus, cluster: multusFlavour,
		why: "Multus and nadra can share a cluster, and never serve one pod: see docs/operations.md, Whose node it is.",
	},
	{
		id: "multus-settings", area: AreaMultus, cluster: multusSettings,
		why: "What Multus is set to decides which of its behaviours workloads rely on.",
	},
	{
		id: "multus-isolation", area: AreaMultus, cluster: multusIsolation,
		why: "Without it a pod may use the networks of every namespace.",
	},
	{
		id: "multus-default-networks", area: AreaMultus, cluster: multusDefaultNetworks,
		why: "Multus attaches them to every pod outside its system namespaces. nadra attaches what a pod asks for, and nothing else.",
	},
	{
		id: "multus-system-namespaces", area: AreaMultus, cluster: multusSystemNamespaces,
		why: "They exempt pods from the default networks, which nadra does not have.",
	},
	{
		id: "multus-cluster-network", area: AreaMultus, cluster: multusClusterNetwork,
		why: "The default network is the runtime's, by its own CNI directory. nadra comes after it, and does not replace it.",
	},
	{
		id: "multus-directories", area: AreaMultus, cluster: multusDirectories,
		why: "nadra looks for plugins, and for configurations of networks that have none, in directories of its own flags.",
	},
	{
		id: "multus-auxiliary-chain", area: AreaMultus, cluster: multusAuxiliaryChain,
		why: "nadra has no such chain: its plugins would not run any more.",
	},
	{
		id: "static-pods", area: AreaPods, cluster: staticPods,
		why: "Static pods cannot refer to claims: the API server knows only their mirror. On nodes of nadra they are refused rather than started without their networks.",
	},
	{
		id: "policies", area: AreaPods, cluster: policies,
		why: "Programs such as multi-networkpolicy go by the annotation. For a pod that has its networks by a claim alone no rule is made, and as a peer it is not let through.",
	},
	{
		id: "ipam", area: AreaIPAM, cluster: ipamPlugins,
		why: "nadra runs the same IPAM plugins; where they keep their state stays theirs.",
	},
	{
		id: "whereabouts", area: AreaIPAM, cluster: whereabouts,
		why: "Its leases are by pod, whoever runs the plugin: pods of Multus and of nadra draw from the same pools.",
	},
}
