package reason

// Stage is the step at which a code appears, on a pod's way to its networks.
type Stage string

// The stages, in the order of a pod's life.
const (
	Publish Stage = "Publish"
	Pools   Stage = "Pools"
	Admit   Stage = "Admit"
	Prepare Stage = "Prepare"
	Attach  Stage = "Attach"
	Gate    Stage = "Gate"
	Detach  Stage = "Detach"
)

// Entry explains a code.
type Entry struct {
	Code  Code
	Stage Stage
	// Meaning describes in a sentence or two what has happened.
	Meaning string
	// Owner can remove the cause. If Remedy is "", nobody needs to.
	Owner Owner
	// Remedy is what the owner does. It is "" if the cause goes away by itself.
	Remedy string
}

// Lookup returns the entry of a code.
func Lookup(code Code) (Entry, bool) {
	for _, e := range all {
		if e.Code == code {
			return e, true
		}
	}
	return Entry{}, false
}

// All returns the entries, ordered by stage.
func All() []Entry { return all }

const (
	fixClaim = "Correct the claim or its template, and recreate the pod: an allocated claim cannot be changed."
	newPod   = "Delete the pod, so that the next one gets another device."
)

var table = []Entry{
	{
		NetworkInvalid, Publish, "The NAD's configuration cannot be read, or is not a CNI configuration.", OfNetwork,
		"Correct spec.config as the message says.",
	},
	{
		ConfigMissing, Publish, "The NAD has no spec.config, and the node has no file with its configuration in --nad-conf-dir.", OfNetwork,
		"Write the configuration into the NAD, or into a file on the node. The message names files that cannot be read.",
	},
	{
		MasterMissing, Publish, "The interface that a plugin needs (master) is not on the node.", OfNode,
		"Create the interface, or correct master in the NAD. The driver notices a new interface at once.",
	},
	{
		PluginMissing, Publish, "A plugin or IPAM plugin is in none of the directories of --cni-bin-dirs.", OfNode,
		"Install the plugin, or correct type in the NAD. The driver notices it without a restart.",
	},
	{
		PluginUnhealthy, Publish, "A plugin answers STATUS with an error, so the node offers its network to no new pods. Pods that have the network keep it.", OfPlugin,
		"Repair what the plugin names. The driver calls STATUS again every 5 s, and offers the network when it succeeds.",
	},
	{StatusPending, Publish, "The plugins of a new network have not answered STATUS yet.", OfPlugin, ""},
	{PoolDevice, Publish, "The network draws from a resource pool, whose devices are offered instead of one for the network.", OfDriver, ""},
	{
		NodeNotOwned, Publish, "The node's label does not give its networks to nadra, so the driver offers none.", OfCluster,
		"Label the node (kubectl nadra upgrade), or place the pod on a node of nadra.",
	},

	{
		PoolMissing, Pools, "A definition of resource pools is missing or cannot be read: a ConfigMap or key of --pool-config, a SriovNetworkNodePolicy, or the node's labels.", OfCluster,
		"Create the object or key, or correct the flag. If the node's labels are unknown, check that the Node exists.",
	},
	{
		PoolInvalid, Pools, "A field in the definition of a resource pool is wrong or unknown. The driver does not serve the pool, because it could serve other devices than the author meant.", OfCluster,
		"Correct the field that the message names.",
	},
	{
		PoolConflict, Pools, "Two resource pools select one device or use one resource name, or a device plugin serves the device. The first keeps it.", OfCluster,
		"Narrow one of the two, or let only one of them serve the resource on this node.",
	},
	{
		LinkDown, Pools, "A card's function has no link. It is tainted, or not offered if the cluster has no device taints. Pods that have it keep it.", OfNode,
		"Connect the cable, or set the interface up. The driver sees the link at once.",
	},

	{
		NotConvertible, Admit, "nadra serves the pod and cannot attach its networks. The findings follow, with codes of their own (NADRA-…).", OfManifest,
		"Follow each finding, or leave the pod to Multus as the message says.",
	},
	{
		OwnerContradiction, Admit, "Labels of the pod, its namespace or its node, or the pod's claims, contradict each other about whether nadra or Multus serves the pod.", OfManifest,
		"Remove one of the two as the message says.",
	},
	{
		OwnerUnclear, Admit, "The webhook cannot read an object that decides whether nadra or Multus serves the pod.", OfCluster,
		"Repair the cause that follows: the API server, or a right of the controller. Then create the pod again.",
	},
	{
		DefaultNetworksInvalid, Admit, "The label nadra.dev/default-networks of the pod's namespace, or the annotation of that name of the pod, has a value that the webhook cannot use.", OfCluster,
		"Correct the value, or remove it. The value none means no default networks.",
	},
	{
		TemplateNotCreated, Admit, "The controller cannot create the pod's ResourceClaimTemplate. The API server's answer follows, and the controller tries again.", OfCluster,
		"Raise the quota count/resourceclaimtemplates.resource.k8s.io, or give the controller its ClusterRole. Pods of equal needs share one template.",
	},
	{
		TemplateNotFound, Admit, "A waiting pod refers to a ResourceClaimTemplate that does not exist, and the pod does not determine its content: its annotation was changed, or its networks are gone.", OfPod,
		"Create the ResourceClaimTemplate, or delete the pod so that its successor is admitted again.",
	},
	{
		ObjectNotRead, Admit, "The API server did not return an object to the controller, or returned one that the controller does not understand.", OfCluster,
		"Repair the cause that follows. Then create the pod again.",
	},
	{
		ControllerBug, Admit, "nadra's controller has a bug. It still admits other pods.", OfCluster,
		"Report it with the stack from the controller's log.",
	},

	{
		RuntimeNotConnected, Prepare, "No container runtime is connected to the driver by NRI. Pods wait, because they would run without their networks.", OfNode,
		"Enable NRI in the container runtime's configuration. After a start of the driver, wait some seconds.",
	},
	{
		NetworkNotFound, Prepare, "The NAD of the claim does not exist: it was deleted after a device was allocated, or the claim names one that never existed.", OfNetwork,
		"Create the NetworkAttachmentDefinition, or delete the pod if it does not need the network.",
	},
	{ClaimInvalid, Prepare, "The claim's configuration is wrong, or is for another network than the allocated device.", OfManifest, fixClaim},
	{
		ClaimNotAllocated, Prepare, "The claim has no allocation, because it bypassed the scheduler.", OfManifest,
		"Let the scheduler place the pod.",
	},
	{
		ClaimNotReserved, Prepare, "The claim is reserved for no pod, or for an object that is not a pod.", OfManifest,
		"Use the claim for a pod. If the claim was released meanwhile, do nothing.",
	},
	{
		ClaimShared, Prepare, "Several pods share the claim, or it is a PodGroup's claim, and a network attachment belongs to one pod.", OfManifest,
		"Use a ResourceClaimTemplate, which gives each pod its own claim.",
	},
	{ClaimUnprepared, Prepare, "A request of the kubelet came late: it had already unprepared the claim.", OfKubelet, ""},
	{
		ClaimIncomplete, Prepare, "The node's record of one of the pod's claims was lost while others are attached, or a claim has passed to a pod in which its networks have other numbers.", OfPod,
		"Delete the pod. Look for NetworkStateDamaged events on the Node: its disk may be failing.",
	},
	{
		OtherClaimFailed, Prepare, "Another claim of the pod fails, for the reason that follows.", OfManifest,
		"Follow the other reason.",
	},
	{
		ContainerWithoutClaim, Prepare, "A container names no claim with networks in resources.claims, so nothing would hold it until the networks are attached.", OfManifest,
		"Create the pod again with the claim in every container and init container, or let the webhook name it there. For a copy of a pod (kubectl debug --copy-to), add --keep-annotations.",
	},
	{
		PodNotRead, Prepare, "The driver cannot read the pod or its claims, or finds another pod of the same name.", OfCluster,
		"Repair the cause that follows: the API server, or the driver's right to get, list and watch pods. The kubelet tries again.",
	},
	{
		AnnotationInvalid, Prepare, "The pod's network annotation cannot be read, or names networks for which the pod has no claim.", OfManifest,
		"Correct the annotation as the message says, or label the namespace so that the webhook converts the pod.",
	},
	{
		LimitExceeded, Prepare, "A pod's annotation or claims, or a NAD's configuration, exceed a limit (docs/reference/limits.md). Nothing of it was attached.", OfManifest,
		"Shorten the value that the message names to the limit that it names.",
	},
	{
		InterfaceConflict, Prepare, "Two networks ask for one interface name, or one asks for a name that every pod has (eth0, lo).", OfManifest,
		"Choose different names.",
	},
	{
		AddressConflict, Prepare, "A network asks for an address that no host can have, or without the prefix length that the IPAM plugin static needs, or two networks ask for one address.", OfManifest,
		"Give each address once, and with its prefix length.",
	},
	{
		RouteConflict, Prepare, "A gateway of the default route is not an address, or two networks ask for the default route of one family.", OfManifest,
		"Ask for the default route once.",
	},
	{
		NamespaceIsolation, Prepare, "The NAD is in another namespace than the pod, and --namespace-isolation is on.", OfManifest,
		"Use a NAD in the pod's namespace, or in a shared namespace that the message names.",
	},
	{DeviceInUse, Prepare, "An exclusive device stays in use until the pod that had it is gone, and its DEL has succeeded.", OfKubelet, ""},
	{DeviceGone, Prepare, "The allocated device is no longer on the node, or no resource pool selects it.", OfPod, newPod},
	{
		DeviceMismatch, Prepare, "Networks and allocated devices do not match: too few devices, a device of another resource pool, a device for a network that uses no pool, a device of another driver (deviceFrom) on which the network cannot run, a network that needs deviceFrom, or a device that lists another network with the same ID.", OfManifest,
		"Request as many devices of the network's resource pool as networks use it, correct the NAD's annotation, or name a device that suits the network's plugin by deviceFrom (docs/operate/compose.md; convert --device-class writes it).",
	},
	{
		DeviceUnsuitable, Prepare, "The device or the node lacks what the network needs: an RDMA device, vhost-net, or the RDMA subsystem's exclusive mode.", OfNode,
		"Load the driver or set the mode that the message names.",
	},
	{
		StateNotWritten, Prepare, "The driver cannot write its records, and attaches nothing that it cannot record first.", OfNode,
		"Free space on the node's disk, or repair its file system.",
	},
	{
		StateDamaged, Prepare, "The driver cannot read a file of its state, and has moved it to /var/lib/nadra/damaged. The claim has no record any more, and its pod runs on.", OfNode,
		"Delete the claim's pod. If more files are damaged, check the node's disk.",
	},
	{
		StateOfLaterVersion, Prepare, "A file of the driver's state was written by a later version of nadra, which this version cannot read. The driver does not start, and changes no file.", OfNode,
		"Run the version of nadra-node that wrote the file, or a later one.",
	},

	{
		NoClaim, Attach, "The pod's annotation names networks, the pod has no claim, and its node or its namespace refuses such pods; or a network draws from a resource pool, and the pod has neither a claim nor enough devices of a device plugin.", OfConversion,
		"Convert the pod, label its namespace, so that the webhook sees it even if another webhook adds the annotation, or keep it on nodes of Multus. A static pod cannot have claims: use a DaemonSet, or allow it by --unclaimed=attach.",
	},
	{
		OwnerUnknown, Attach, "The pod names networks and has no claim, and neither this driver nor one before it has read whether the node is nadra's.", OfCluster,
		"Find why the driver cannot read its Node: the API server is away, or the driver may not list and watch nodes.",
	},
	{
		PluginFailed, Attach, "A CNI plugin returned an error, or could not be run. Its message follows. The driver has rolled back the attachment.", OfPlugin,
		"Repair what the plugin's message names.",
	},
	{
		DeviceNotInPod, Attach, "The network runs on an interface that another driver moves into the pod, and has not.", OfNode,
		"See the other driver's log, and whether the NAD's master is the interface's name in the pod.",
	},
	{
		PluginTimeout, Attach, "A CNI plugin took longer than --add-timeout, and was killed.", OfPlugin,
		"Find what the plugin waits for, most often its IPAM.",
	},
	{
		InterfaceExists, Attach, "The pod already has an interface of this name, which nadra did not create.", OfManifest,
		"Ask for another interface name.",
	},
	{
		AddressDuplicate, Attach, "Another host has an IPv6 address of the network: the kernel's duplicate address detection has failed.", OfManifest,
		"Find who has the address, or give the pod another one. The driver tries again at the kubelet's next request.",
	},
	{
		PendingDEL, Attach, "An ADD failed, and so does the DEL after it, or the DEL waits for the end of the pod because it may release what another network has. The pod gets its network once the DEL succeeds.", OfPlugin,
		"Repair what the DEL's message names.",
	},
	{
		GatewayUnreachable, Attach, "default-route names a gateway that is in no network of the interface.", OfManifest,
		"Correct the gateway, or the interface's addresses.",
	},
	{
		HostNetwork, Attach, "The pod uses the host's network, in which nadra runs no plugin.", OfManifest,
		"Remove spec.hostNetwork, or the pod's networks, and recreate the pod.",
	},
	{
		SandboxUnspecified, Attach, "The container runtime names no namespaces for the sandbox: containerd was killed after it started the sandbox, and before it stored the sandbox's specification.", OfPod,
		"Delete the pod; its next sandbox is complete.",
	},
	{NamespaceGone, Attach, "The sandbox's network namespace is gone: the sandbox has just ended.", OfKubelet, ""},
	{
		KernelTooOld, Attach, "The kernel has no cookies of network namespaces (Linux 5.14).", OfNode,
		"Update the node's kernel.",
	},
	{
		AttachRunning, Attach, "The plugins are running, or run again after a temporary failure.", OfPlugin,
		"Wait: the driver retries for 55 s, and longer with whereabouts. If a plugin always takes long, look at its IPAM first.",
	},
	{AttachNotBegun, Attach, "The sandbox was created while the driver was down; the driver attaches its networks now.", OfDriver, ""},
	{
		AttachTimeout, Attach, "A temporary failure lasted longer than the time that the message names.", OfPlugin,
		"Repair what the plugin's message names; the kubelet's next request starts another attempt.",
	},
	{AttachCancelled, Attach, "The networks are no longer needed: the pod is being deleted, its sandbox was replaced or stopped, or the driver stops.", OfKubelet, ""},
	{
		OtherNetworkFailed, Attach, "Another network of the pod fails, for the reason that follows. The driver attaches a pod's networks one after the other, and all or none.", OfPlugin,
		"Follow the other reason.",
	},
	{
		StatusNotStored, Attach, "The networks are attached, but the API server has not stored the pod's network-status, for which containers wait.", OfCluster,
		"Find why the API server does not answer or refuses: a right to patch pods/status, an admission policy, a webhook.",
	},
	{
		EditRefused, Attach, "The networks annotation of a running pod was edited, and asks for what a running pod cannot get or lose: a device of a resource pool, one of two addresses of a range of whereabouts, or a network beside those that another program has attached.", OfManifest,
		"Delete the pod, so that the next one is made with the annotation; or take the edit back.",
	},

	{
		GateNoRecord, Gate, "The claim has no record on the node: the pod is being deleted, or the driver's state was removed.", OfPod,
		"Delete the pod, unless it is being deleted already.",
	},
	{
		GateRecordUnreadable, Gate, "The claim's record cannot be read, or is of another version of nadra.", OfCluster,
		"Look for NetworkStateDamaged events on the Node. If the versions differ, restart the driver: it installs its own gate.",
	},
	{
		GateNotAttached, Gate, "The driver did not attach the network while the gate held the container.", OfCluster,
		"Check that the driver runs on this node and is connected to the container runtime (NRI): kubectl -n nadra get pods -l app.kubernetes.io/name=nadra-node -o wide.",
	},
	{GateStaleAttachment, Gate, "The record is of another sandbox, network namespace or boot of the node, and the driver has not attached this one yet.", OfDriver, ""},
	{
		GateBadInput, Gate, "The gate cannot find out where the container starts: the container runtime does not call the hook as OCI specifies, or the container has no network namespace.", OfCluster,
		"Report it with the container runtime's version.",
	},

	{
		DELFailed, Detach, "A DEL fails. Until a retry succeeds, what the plugin allocated, such as addresses, stays in use. The pod can go.", OfPlugin,
		"Repair what the plugin's message names. The driver keeps retrying.",
	},
	{
		DELUnfinished, Detach, "The DELs of the pod's networks have not ended yet. The driver continues them, and the pod can go.", OfPlugin,
		"Wait. If it stays, repair what the plugin's message names.",
	},
	{
		AttachmentChanged, Detach, "An interface or an address is gone, or a CHECK fails: something in the pod or on the node has changed the network since it was attached.", OfPod,
		"Repair it. If the node lacks what the network needs (kubectl nadra get networks), repair that first, and then delete the pod to have its networks attached again. nadra only reports the change.",
	},
	{
		DeviceNotRestored, Detach, "The driver could not return the device to the host in the state that it had before the pod.", OfNode,
		"Repair what the message names. The driver tries again when hardware changes.",
	},
}
