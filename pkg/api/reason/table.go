package reason

// Stage is the step of a pod's way to its networks at which a code appears.
type Stage string

// The stages, in the order of the way.
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
	// Meaning says in a sentence or two what has happened.
	Meaning string
	// Owner is who can do something about it. Nobody has to if Remedy is "".
	Owner Owner
	// Remedy says what the owner does.
	Remedy string
}

// Lookup returns the entry of a code.
func Lookup(code Code) (Entry, bool) {
	for _, e := range table {
		if e.Code == code {
			return e, true
		}
	}
	return Entry{}, false
}

// All returns the entries, ordered by stage.
func All() []Entry { return table }

const (
	fixClaim = "Correct the claim or its template and create the pod anew: a claim cannot be changed once it is allocated."
	newPod   = "Delete the pod, so that the next one gets another device."
)

var table = []Entry{
	{NetworkInvalid, Publish, "The NAD's configuration cannot be read, or is no CNI configuration.", OfNetwork,
		"Correct spec.config as the message says."},
	{ConfigMissing, Publish, "The NAD has no spec.config, and the node has no file with its configuration in --nad-conf-dir.", OfNetwork,
		"Write the configuration into the NAD, or the file on the node. Files that cannot be read are named."},
	{MasterMissing, Publish, "The interface that a plugin works on (master) is not on the node.", OfNode,
		"Create the interface, or correct master in the NAD. The driver sees an interface at once."},
	{PluginMissing, Publish, "A plugin or IPAM plugin is in none of --cni-bin-dirs.", OfNode,
		"Install the plugin, or correct type in the NAD. The driver needs no restart."},
	{PluginUnhealthy, Publish, "A plugin answers STATUS with an error. Pods that have the network keep it.", OfPlugin,
		"Repair what the plugin names. STATUS is asked again, and the network is offered when it succeeds."},
	{StatusPending, Publish, "The plugins of a new network have not answered STATUS yet.", OfPlugin, ""},
	{PoolDevice, Publish, "The network draws from a resource pool, whose devices are offered instead of one for the network.", OfDriver, ""},
	{NodeNotOwned, Publish, "The node's label does not give its networks to nadra, so the driver offers none.", OfCluster,
		"Label the node (kubectl nadra upgrade), or place the pod on a node of nadra's."},

	{PoolMissing, Pools, "A definition of resource pools is missing, or cannot be read: a ConfigMap or key of --pool-config, a SriovNetworkNodePolicy, or the node's labels.", OfCluster,
		"Create the object or key, or correct the flag. If the node's labels are not known: does the Node exist?"},
	{PoolInvalid, Pools, "A field of a resource pool's definition is wrong or not known. The pool is not served rather than served with other devices than its author meant.", OfCluster,
		"Correct the field that the message names."},
	{PoolConflict, Pools, "Two resource pools want one device or one resource name, or a device plugin serves it. The first keeps it.", OfCluster,
		"Narrow one of the two, or let only one of them serve the resource on this node."},
	{LinkDown, Pools, "A card's function has no link. It is tainted, or not offered if the cluster has no device taints. Pods that have it keep it.", OfNode,
		"Connect the cable, or set the interface up. The driver sees the link at once."},

	{NotConvertible, Admit, "nadra serves the pod and cannot attach its networks. The findings follow, with codes of their own (NADRA-…).", OfManifest,
		"Follow each finding, or leave the pod to Multus as the message says."},
	{OwnerContradiction, Admit, "Labels of the pod, its namespace or its node, or its claims, say that both nadra and Multus serve it.", OfManifest,
		"Remove one of the two as the message says."},
	{OwnerUnclear, Admit, "What the webhook must know to decide who serves the pod cannot be read.", OfCluster,
		"The cause follows: the API server, or a right of the controller. The pod's owner tries again."},
	{TemplateNotCreated, Admit, "The webhook cannot create the ResourceClaimTemplate of the pod.", OfCluster,
		"Raise the quota count/resourceclaimtemplates.resource.k8s.io, or give the controller its ClusterRole: the API server's reason follows. One template serves all pods of equal needs."},
	{ObjectNotRead, Admit, "The API server did not give the controller an object, or gave one that it does not understand.", OfCluster,
		"The cause follows. Whoever creates the pod tries again."},
	{ControllerBug, Admit, "nadra's controller has a bug. No other pod is held back.", OfCluster,
		"Report it with the stack from the controller's log."},

	{RuntimeNotConnected, Prepare, "No container runtime is connected to the driver by NRI. Pods wait rather than run without their networks.", OfNode,
		"Enable NRI in the container runtime's configuration. After a start of the driver, wait some seconds."},
	{NetworkNotFound, Prepare, "The NAD that the claim names does not exist.", OfNetwork,
		"Create the NetworkAttachmentDefinition, or remove the claim's request for it."},
	{NetworkDeleted, Prepare, "The NAD was deleted after a device of it was allocated.", OfNetwork,
		"Create the NetworkAttachmentDefinition again, or delete the pod."},
	{ClaimInvalid, Prepare, "The claim's configuration is wrong, or is for another network than the device.", OfManifest, fixClaim},
	{ClaimNotAllocated, Prepare, "The claim has no allocation: somebody made it without the scheduler.", OfManifest,
		"Let the scheduler place the pod."},
	{ClaimNotReserved, Prepare, "The claim is reserved for no pod, or for something that is not a pod.", OfManifest,
		"Use the claim for a pod. If it was released meanwhile, nothing is to be done."},
	{ClaimShared, Prepare, "The claim is shared by several pods, and a network attachment belongs to one.", OfManifest,
		"Use a ResourceClaimTemplate, which makes a claim for each pod."},
	{ClaimUnprepared, Prepare, "A late request of the kubelet for a claim that it has already had unprepared.", OfKubelet, ""},
	{ClaimIncomplete, Prepare, "The state of one of the pod's claims was lost while others are attached.", OfNode,
		"Delete the pod. Look for NetworkStateDamaged events: the node's disk may be bad."},
	{OtherClaimFailed, Prepare, "Another claim of the pod fails, for the reason that follows.", OfManifest,
		"Do what the other reason asks for."},
	{ContainerWithoutClaim, Prepare, "A container names no claim with networks in resources.claims, so nothing would hold it until they are attached.", OfManifest,
		"Name the claim in every container and init container, or let the webhook do so."},
	{PodNotRead, Prepare, "The driver cannot read the pod, or reads another pod of this name.", OfDriver,
		"The cause follows: the API server, or a right of the driver. The kubelet tries again."},
	{AnnotationInvalid, Prepare, "The pod's network annotation cannot be read, or names networks that its claims do not bring.", OfManifest,
		"Correct the annotation as the message says, or label the namespace so that the webhook converts the pod."},
	{InterfaceConflict, Prepare, "Two networks ask for one interface name, or one asks for a name that every pod has.", OfManifest,
		"Choose different names."},
	{AddressConflict, Prepare, "A network asks for an address that no host can have, or two ask for one address.", OfManifest,
		"Give each address once."},
	{RouteConflict, Prepare, "A gateway of the default route is no address, or two networks ask for the default route of one family.", OfManifest,
		"Ask for the default route once."},
	{NamespaceIsolation, Prepare, "The NAD is in another namespace than the pod, and --namespace-isolation is on.", OfManifest,
		"Use a NAD of the pod's namespace, or of a shared one that the message names."},
	{DeviceInUse, Prepare, "An exclusive device is not free before the pod that had it is gone.", OfKubelet, ""},
	{DeviceGone, Prepare, "The allocated device is not on the node any more, or no resource pool selects it.", OfNode, newPod},
	{DeviceMismatch, Prepare, "Networks and allocated devices do not fit: too few devices, one of another resource pool, or a network that draws from none.", OfManifest,
		"Ask for as many devices of the network's resource pool as networks draw from it, or correct the NAD's annotation."},
	{DeviceUnsuitable, Prepare, "The device or node lacks what the network needs: an RDMA device, vhost-net, the RDMA subsystem's exclusive mode.", OfNode,
		"Load the driver or set the mode that the message names."},
	{StateNotWritten, Prepare, "The driver cannot write its records. Nothing is attached that cannot be written down first.", OfNode,
		"Free the node's disk, or repair its file system."},

	{NoClaim, Attach, "The pod's annotation names networks, it has no claim, and its node is nadra's, which attaches networks by claims.", OfConversion,
		"Convert the pod, label its namespace, or keep it on nodes of Multus."},
	{PluginFailed, Attach, "A CNI plugin returned an error, or could not be run. Its own words follow; what was done is taken back.", OfPlugin,
		"Repair what the plugin names."},
	{PluginTimeout, Attach, "A CNI plugin took longer than --add-timeout and was ended.", OfPlugin,
		"Find what the plugin waits for: its IPAM, most often."},
	{InterfaceExists, Attach, "The pod has an interface of this name that nadra has not made.", OfManifest,
		"Ask for another interface name."},
	{PendingDEL, Attach, "An ADD failed, and so does the DEL after it. The pod gets its network once the DEL succeeds.", OfPlugin,
		"Repair what the DEL's reason names."},
	{GatewayUnreachable, Attach, "default-route names a gateway that is in no network of the interface.", OfManifest,
		"Correct the gateway, or the interface's addresses."},
	{HostNetwork, Attach, "The pod uses the host's network, in which no plugin is run for a pod.", OfManifest,
		"Remove spec.hostNetwork, or the claim, and create the pod anew."},
	{SandboxUnspecified, Attach, "The container runtime names no namespaces for the sandbox: containerd was killed between starting it and storing its specification.", OfPod,
		"Delete the pod; its next sandbox is complete."},
	{NamespaceGone, Attach, "The sandbox's network namespace is gone: the sandbox has just ended.", OfKubelet, ""},
	{KernelTooOld, Attach, "The kernel has no cookies of network namespaces (Linux 5.14).", OfNode,
		"Update the node's kernel."},
	{AttachRunning, Attach, "The plugins are running, or are tried again after a failure that may pass.", OfPlugin,
		"Wait: it is tried for 55 s, longer with whereabouts. A plugin that always takes long is worth a look: its IPAM, most often."},
	{AttachNotBegun, Attach, "The sandbox was made while the driver was away; it is being attached now.", OfDriver, ""},
	{AttachTimeout, Attach, "A failure that may pass did not pass within the time that the message names.", OfPlugin,
		"Repair what the plugin names; the kubelet's next request begins another attempt."},
	{AttachCancelled, Attach, "The networks are not wanted any more, or not now: the pod is being deleted, its sandbox was replaced or stopped, or the driver ends.", OfKubelet, ""},
	{OtherNetworkFailed, Attach, "Another network of the pod fails, for the reason that follows. A pod's networks are attached one after the other, and all or none.", OfPlugin,
		"Do what the other reason asks for."},
	{StatusNotStored, Attach, "The networks are attached, but the API server has not stored the pod's network-status, for which containers wait.", OfCluster,
		"Find why the API server does not answer, or refuses: a right to patch pods/status, an admission policy, a webhook."},

	{GateNoRecord, Gate, "The claim has no record on the node: the pod is being deleted, or the driver's state was removed.", OfPod,
		"Delete the pod, if nobody has."},
	{GateRecordUnreadable, Gate, "The claim's record cannot be read, or is of another version of nadra.", OfCluster,
		"Look for NetworkStateDamaged events. The driver installs its own gate at its start: reinstall it if the versions differ."},
	{GateNotAttached, Gate, "The driver did not attach the network while the gate held the container.", OfCluster,
		"See whether the driver runs on this node and is connected to the container runtime (NRI)."},
	{GateStaleAttachment, Gate, "The record is of another sandbox, network namespace or boot of the node, and the driver has not attached this one yet.", OfDriver, ""},
	{GateBadInput, Gate, "The container runtime calls the hook otherwise than OCI says, or the container has no network namespace.", OfCluster,
		"Report it with the container runtime's version."},

	{DELFailed, Detach, "A DEL fails. What the plugin keeps, such as addresses, stays taken until a retry succeeds; the pod can go.", OfPlugin,
		"Repair what the plugin names."},
	{DELUnfinished, Detach, "The DELs of the pod's networks have not ended; they go on.", OfPlugin,
		"If it stays: repair what the plugin names. The pod can go, and the driver goes on trying."},
	{AttachmentChanged, Detach, "A CHECK fails: something in the pod or on the node has changed the network since it was attached.", OfPod,
		"Repair it, or delete the pod to have it attached anew. nadra only reports it."},
	{DeviceNotRestored, Detach, "The device could not be given back to the host as it was before the pod.", OfNode,
		"Repair what the message names; it is tried again."},
}
