package doctor

// CheckReaders is the ID of the checks that name programs which do not see the networks of nadra's pods.
const CheckReaders = "annotation-readers"

// rules lists all checks in the order of the report. A check is unknown, and never ok, if
// what it needs could not be read.
var rules = []rule{
	{
		id: "nadra-driver", area: AreaNadra, cluster: nadraDriver,
		why: "Pods with networks do not start on a node without a ready driver, and networks of pods that end are not detached there.",
	},
	{
		id: "nadra-controller", area: AreaNadra, cluster: nadraController,
		why: "It serves the webhook that gives claims to pods, and keeps DeviceClasses and templates.",
	},
	{
		id: "nadra-webhook", area: AreaNadra, needs: []string{PartWebhook}, cluster: nadraWebhook,
		why: "While the webhook does not answer, the API server refuses each new pod that names networks.",
	},
	{
		id: "nadra-devices", area: AreaNadra, needs: []string{PartSlices}, cluster: nadraDevices,
		why: "The scheduler allocates the devices of ResourceSlices. Without any, pods with networks stay pending.",
	},
	{
		id: "waiting-pods", area: AreaNadra, needs: []string{PartPods}, cluster: waitingPods,
		why: "The containers of these pods have not started. A pod that was just created waits for some seconds.",
	},
	{
		id: "kubernetes-version", area: AreaCluster, cluster: kubernetesVersion,
		why: "nadra uses resource.k8s.io/v1, which Kubernetes serves since 1.34. Since 1.36, many pods share one device by default; before, a device is a number of copies.",
	},
	{
		id: "dra-api", area: AreaCluster, needs: []string{PartGroups}, cluster: draAPI,
		why: "Pods get networks by claims, claim templates, device classes and slices.",
	},
	{
		id: "feature-gates", area: AreaCluster, cluster: featureGates,
		why: "The API server drops the fields of feature gates that are off.",
	},
	{
		id: "schedulers", area: AreaCluster, objects: componentsOf(Scheduler),
		why: "The scheduler that places a pod must allocate its claims. A scheduler without support for claims leaves such pods pending, or counts them wrongly.",
	},
	{
		id: "autoscalers", area: AreaCluster, objects: componentsOf(Autoscaler),
		why: "An autoscaler that does not simulate claims adds no nodes for pods that wait for a network. No autoscaler knows the networks of a node group without nodes.",
	},
	{
		id: "nodes", area: AreaCluster, cluster: nodes,
		why: "The other checks cover the nodes that could be read.",
	},
	{
		id: "beside-multus", area: AreaCluster, cluster: besideMultus,
		why: "The webhook renames the annotation by which Multus would attach a pod's networks, and the driver reads the new one. Both must do it, or both must not.",
	},
	{
		id: "network-configurations", area: AreaCluster, needs: []string{PartNetworks}, cluster: networkConfigurations,
		why: "No pod can use such a network, with Multus or without.",
	},
	{
		id: "network-plugins", area: AreaCluster, needs: []string{PartNetworks}, cluster: networkPlugins,
		why: "A node offers a network if it has every plugin of its chain. Pods that use a network without a node stay pending.",
	},
	{
		id: "network-masters", area: AreaCluster, needs: []string{PartNetworks}, cluster: networkMasters,
		why: "A node offers a network if it has the network's master. Pods that use a network without a node stay pending.",
	},
	{
		id: "kubelet-version", area: AreaNode, node: kubeletVersion,
		why: "The kubelet prepares claims by an API that it has since 1.34.",
	},
	{
		id: "runtime-version", area: AreaNode, node: runtimeVersion,
		why: "nadra attaches networks in NRI hooks, and holds containers by a CDI device. Both are features of the container runtime.",
	},
	{
		id: "kernel-version", area: AreaNode, node: kernelVersion,
		why: "The gate identifies a pod's network namespace by its cookie, which Linux has since 5.14.",
	},
	{
		id: "kubelet-gates", area: AreaNode, needs: []string{PartConfig}, node: kubeletGates,
		why: "A kubelet without DynamicResourceAllocation does not prepare claims.",
	},
	{
		id: "topology-manager", area: AreaNode, needs: []string{PartConfig}, node: topologyManager,
		why: "The Topology Manager aligns CPUs with devices of device plugins. It does not see devices of claims: CPUs and device may be on different NUMA nodes.",
	},
	{
		id: "nri", area: AreaNode, needs: []string{PartProbe}, node: nriAnswers,
		why: "Without NRI, the runtime does not report new sandboxes, and nadra attaches nothing.",
	},
	{
		id: "nri-request-timeout", area: AreaNode, needs: []string{PartProbe}, node: nriTimeout,
		why: "NRI drops a plugin that answers later, and starts its pod without networks. nadra stays below the timeout.",
	},
	{
		id: "cdi", area: AreaNode, needs: []string{PartProbe}, node: cdiDirs,
		why: "The driver writes a CDI spec that adds the gate to containers. The gate holds them until their networks are attached.",
	},
	{
		id: "cni-plugins", area: AreaNode, needs: []string{PartNetworks, PartProbe}, node: cniPlugins,
		why: "This node does not offer these networks.",
	},
	{
		id: "masters", area: AreaNode, needs: []string{PartNetworks, PartProbe}, node: masters,
		why: "This node does not offer these networks.",
	},
	{
		id: "cni-configuration", area: AreaNode, needs: []string{PartProbe}, node: cniConfiguration,
		why: "The runtime takes the first file by name for the pods' default network. nadra has no file there, and does not replace the default network.",
	},
	{
		id: "dhcp-daemon", area: AreaNode, needs: []string{PartNetworks}, node: dhcpDaemon,
		why: "The IPAM plugin dhcp needs its daemon on the node.",
	},
	{
		id: "probe-errors", area: AreaNode, node: probeErrors,
		why: "What could not be read was not checked.",
	},
	{
		id: "multus", area: AreaMultus, cluster: multusFlavour,
		why: "Multus and nadra can share a cluster, and never serve the same pod: see docs/install/drop-in.md, Whose node it is.",
	},
	{
		id: "multus-settings", area: AreaMultus, cluster: multusSettings,
		why: "Multus' settings decide which of its behaviours workloads rely on.",
	},
	{
		id: "multus-isolation", area: AreaMultus, cluster: multusIsolation,
		why: "Without isolation, a pod may use the networks of every namespace.",
	},
	{
		id: "multus-default-networks", area: AreaMultus, cluster: multusDefaultNetworks,
		why: "Multus attaches them to every pod outside its system namespaces. With nadra, the webhook adds them to pods, if nadra-controller has the same list.",
	},
	{
		id: "multus-cluster-network", area: AreaMultus, cluster: multusClusterNetwork,
		why: "The runtime attaches the default network by its own CNI directory. nadra does not replace it.",
	},
	{
		id: "multus-directories", area: AreaMultus, cluster: multusDirectories,
		why: "nadra finds plugins, and configuration files of networks, in the directories of its own flags.",
	},
	{
		id: "multus-auxiliary-chain", area: AreaMultus, cluster: multusAuxiliaryChain,
		why: "nadra has no such chain, so its plugins would no longer run.",
	},
	{
		id: CheckReaders, area: AreaPods, objects: annotationReaders,
		why: "Beside Multus on one node, pods that nadra serves name their networks in the annotation nadra.dev/networks. Programs that read k8s.v1.cni.cncf.io/networks take them for pods without networks.",
	},
	{
		id: "static-pods", area: AreaPods, needs: []string{PartPods}, cluster: staticPods,
		why: "Static pods cannot refer to claims: the API server knows only their mirror. nadra's nodes attach them by their annotation, or refuse them with --unclaimed=refuse.",
	},
	{
		id: "policies", area: AreaPods, needs: []string{PartPolicies}, cluster: policies,
		why: "Programs such as multi-networkpolicy use the annotation. They create no rules for a pod that only has a claim, and block it as a peer.",
	},
	{
		id: "whereabouts", area: AreaIPAM, needs: []string{PartWhereabouts}, cluster: whereabouts,
		why: "Its leases name pods: pods of Multus and of nadra use the same pools.",
	},
}
