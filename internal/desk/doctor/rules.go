package doctor

import "github.com/nadra-dev/nadra/pkg/translate"

// ProgramsThatRead is the code of checks that name programs which do not see the networks of nadra's pods.
const ProgramsThatRead translate.Code = "NADRA-260"

// rules lists all checks in the order of their codes and of the report: of nadra itself, the cluster, each node, Multus,
// pods, and IPAM. A title is the name of the check and never changes. A check is unknown, and never ok, if
// what it needs could not be read.
var rules = []rule{
	{
		code: "NADRA-201", name: "nadra-driver", worst: blocker, cluster: nadraDriver,
		why: "Pods with networks do not start on a node without a ready driver, and networks of pods that end are not detached there.",
	},
	{
		code: "NADRA-202", name: "nadra-controller", worst: blocker, cluster: nadraController,
		why: "It serves the webhook that gives claims to pods, and keeps DeviceClasses and templates.",
	},
	{
		code: "NADRA-203", name: "nadra-webhook", worst: blocker, needs: []string{PartWebhook}, cluster: nadraWebhook,
		why: "While the webhook does not answer, the API server refuses each new pod that names networks.",
	},
	{
		code: "NADRA-204", name: "nadra-devices", worst: warning, needs: []string{PartSlices}, cluster: nadraDevices,
		why: "The scheduler allocates the devices of ResourceSlices. A pod whose network no node offers stays pending.",
	},
	{
		code: "NADRA-205", name: "waiting-pods", worst: info, needs: []string{PartPods}, cluster: waitingPods,
		why: "The containers of these pods have not started. A pod that was just created waits for some seconds.",
	},
	{
		code: "NADRA-210", name: "kubernetes-version", worst: blocker, cluster: kubernetesVersion,
		why: "nadra uses resource.k8s.io/v1, which Kubernetes serves since 1.34. Since 1.36, many pods share one device by default; before, a device is a number of copies.",
	},
	{
		code: "NADRA-211", name: "dra-api", worst: blocker, needs: []string{PartGroups}, cluster: draAPI,
		why: "Pods get networks by claims, claim templates, device classes and slices.",
	},
	{
		code: "NADRA-212", name: "feature-gates", worst: blocker, cluster: featureGates,
		why: "The API server drops the fields of feature gates that are off.",
	},
	{
		code: "NADRA-213", name: "schedulers", worst: warning, objects: componentsOf(Scheduler),
		why: "The scheduler that places a pod must allocate its claims. A scheduler without support for claims leaves such pods pending, or counts them wrongly.",
	},
	{
		code: "NADRA-214", name: "autoscalers", worst: warning, objects: componentsOf(Autoscaler),
		why: "An autoscaler that does not simulate claims adds no nodes for pods that wait for a network. One that does needs the profile of the nodes in the template of a node group.",
	},
	{
		code: "NADRA-215", name: "nodes", worst: info, cluster: nodes,
		why: "The other checks cover the nodes that could be read.",
	},
	{
		code: "NADRA-216", name: "beside-multus", worst: blocker, cluster: besideMultus,
		why: "The webhook renames the annotation by which Multus would attach a pod's networks, and the driver reads the new one. Both must do it, or both must not.",
	},
	{
		code: "NADRA-217", name: "network-configurations", worst: blocker, needs: []string{PartNetworks}, cluster: networkConfigurations,
		why: "No pod can use such a network, with Multus or without.",
	},
	{
		code: "NADRA-218", name: "network-plugins", worst: blocker, needs: []string{PartNetworks}, cluster: networkPlugins,
		why: "A node offers a network if it has every plugin of its chain. Pods that use a network without a node stay pending.",
	},
	{
		code: "NADRA-219", name: "network-masters", worst: warning, needs: []string{PartNetworks}, cluster: networkMasters,
		why: "A node offers a network if it has the network's master. Pods that use a network without a node stay pending.",
	},
	{
		code: "NADRA-230", name: "kubelet-version", worst: blocker, node: kubeletVersion,
		why: "The kubelet prepares claims by an API that it has since 1.34.",
	},
	{
		code: "NADRA-231", name: "runtime-version", worst: blocker, node: runtimeVersion,
		why: "nadra attaches networks in NRI hooks, and holds containers by a CDI device. Both are features of the container runtime.",
	},
	{
		code: "NADRA-232", name: "kernel-version", worst: blocker, node: kernelVersion,
		why: "The gate identifies a pod's network namespace by its cookie, which Linux has since 5.14.",
	},
	{
		code: "NADRA-233", name: "kubelet-gates", worst: blocker, needs: []string{PartConfig}, node: kubeletGates,
		why: "A kubelet without DynamicResourceAllocation does not prepare claims.",
	},
	{
		code: "NADRA-234", name: "topology-manager", worst: warning, needs: []string{PartConfig}, node: topologyManager,
		why: "The Topology Manager aligns CPUs with devices of device plugins. It does not see devices of claims: CPUs and device may be on different NUMA nodes.",
	},
	{
		code: "NADRA-235", name: "nri", worst: blocker, needs: []string{PartProbe}, node: nriAnswers,
		why: "Without NRI, the runtime does not report new sandboxes, and nadra attaches nothing.",
	},
	{
		code: "NADRA-236", name: "nri-request-timeout", worst: warning, needs: []string{PartProbe}, node: nriTimeout,
		why: "NRI drops a plugin that answers later, and starts its pod without networks. nadra stays below the timeout.",
	},
	{
		code: "NADRA-237", name: "cdi", worst: blocker, needs: []string{PartProbe}, node: cdiDirs,
		why: "The driver writes a CDI spec that adds the gate to containers. The gate holds them until their networks are attached.",
	},
	{
		code: "NADRA-238", name: "cni-plugins", worst: warning, needs: []string{PartNetworks, PartProbe}, node: cniPlugins,
		why: "This node does not offer these networks.",
	},
	{
		code: "NADRA-239", name: "masters", worst: info, needs: []string{PartNetworks, PartProbe}, node: masters,
		why: "This node does not offer these networks.",
	},
	{
		code: "NADRA-240", name: "cni-configuration", worst: blocker, needs: []string{PartProbe}, node: cniConfiguration,
		why: "The runtime takes the first file by name for the pods' default network. nadra has no file there, and does not replace the default network.",
	},
	{
		code: "NADRA-241", name: "dhcp-daemon", worst: warning, needs: []string{PartNetworks}, node: dhcpDaemon,
		why: "The IPAM plugin dhcp needs its daemon on the node.",
	},
	{
		code: "NADRA-242", name: "probe-errors", worst: info, node: probeErrors,
		why: "What could not be read was not checked.",
	},
	{
		code: "NADRA-250", name: "multus", worst: info, cluster: multusFlavour,
		why: "Multus and nadra can share a cluster, and never serve the same pod: see docs/install/drop-in.md, Whose node it is.",
	},
	{
		code: "NADRA-251", name: "multus-settings", worst: warning, cluster: multusSettings,
		why: "Multus' settings decide which of its behaviours workloads rely on.",
	},
	{
		code: "NADRA-252", name: "multus-isolation", worst: warning, cluster: multusIsolation,
		why: "Without isolation, a pod may use the networks of every namespace.",
	},
	{
		code: "NADRA-253", name: "multus-default-networks", worst: warning, cluster: multusDefaultNetworks,
		why: "Multus attaches them to every pod outside its system namespaces. With nadra, the webhook adds them to pods, if nadra-controller has the same list.",
	},
	{
		code: "NADRA-254", name: "multus-cluster-network", worst: warning, cluster: multusClusterNetwork,
		why: "The runtime attaches the default network by its own CNI directory. nadra does not replace it.",
	},
	{
		code: "NADRA-255", name: "multus-directories", worst: warning, cluster: multusDirectories,
		why: "nadra finds plugins, and configuration files of networks, in the directories of its own flags.",
	},
	{
		code: "NADRA-256", name: "multus-auxiliary-chain", worst: warning, cluster: multusAuxiliaryChain,
		why: "nadra has no such chain, so its plugins would no longer run.",
	},
	{
		code: ProgramsThatRead, name: "annotation-readers", worst: warning, objects: annotationReaders,
		why: "Beside Multus on one node, pods that nadra serves name their networks in the annotation nadra.dev/networks. Programs that read k8s.v1.cni.cncf.io/networks take them for pods without networks.",
	},
	{
		code: "NADRA-261", name: "static-pods", worst: warning, needs: []string{PartPods}, cluster: staticPods,
		why: "Static pods cannot refer to claims: the API server knows only their mirror. nadra's nodes attach them by their annotation, or refuse them with --unclaimed=refuse.",
	},
	{
		code: "NADRA-262", name: "policies", worst: warning, needs: []string{PartPolicies}, cluster: policies,
		why: "Programs such as multi-networkpolicy use the annotation. They create no rules for a pod that only has a claim, and block it as a peer.",
	},
	{
		code: "NADRA-270", name: "whereabouts", worst: warning, needs: []string{PartWhereabouts}, cluster: whereabouts,
		why: "Its leases name pods: pods of Multus and of nadra use the same pools.",
	},
}
