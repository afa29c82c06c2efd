package reason

import "slices"

// Stages of the administrator's tools, outside of a pod's life.
const (
	Upgrade Stage = "Upgrade"
	Tools   Stage = "Tools"
)

// all has the entries of all stages.
var all = slices.Concat(table, toolTable)

// toolTable explains the codes of the tools.
var toolTable = []Entry{
	{
		UpgradeRunning, Upgrade, "Another process carries out an upgrade, and holds its Lease.", OfCluster,
		"Wait for it, or stop it with kubectl nadra upgrade pause.",
	},
	{
		LeaseLost, Upgrade, "The command could not read or renew its Lease for 15 s: the API server was not available, or the command was suspended.", OfCluster,
		"Run kubectl nadra upgrade resume when the API server is available.",
	},
	{
		NoNodeForPods, Upgrade, "After the move, pods would stay Pending: no node is left of the owner, nadra or Multus, that serves them.", OfCluster,
		"Move their namespace first, or keep a node of the owner, as the message says.",
	},
	{
		PodNotRecreated, Upgrade, "A pod on the node has no workload that would recreate it after an eviction.", OfPod,
		"Delete the pod, or use --force.",
	},
	{
		DrainTimeout, Upgrade, "Pods with networks did not leave the node or namespace within --drain-timeout.", OfPod,
		"Look at the pod that the message names: a PodDisruptionBudget, a finalizer, or a long shutdown. Then run kubectl nadra upgrade resume.",
	},
	{
		MultusPodRemains, Upgrade, "Multus' pod did not leave the node within --gate-timeout, although the node is labelled for nadra.", OfMultus,
		"See who reverts the node affinity of Multus' DaemonSet. Then run kubectl nadra upgrade resume.",
	},
	{
		MultusPodNotReady, Upgrade, "After a rollback, Multus' pod was not ready on the node within --gate-timeout.", OfMultus,
		"Look at Multus' pod on the node. Then run kubectl nadra upgrade resume.",
	},
	{
		LastConfiguration, Upgrade, "Multus has the only CNI configuration of the container runtime. Without another one the node would have no network.", OfNode,
		"Put the default network's own configuration into the container runtime's directory. Then run kubectl nadra upgrade resume.",
	},
	{
		NotAdopted, Upgrade, "nadra cannot take over the networks that Multus has attached to a pod: what Multus keeps of it on the node cannot be read, or does not fit its network namespace.", OfNode,
		"Delete the pod, so that Multus deletes its networks. Then run kubectl nadra upgrade resume.",
	},
	{
		NotReturned, Upgrade, "nadra's driver did not give the sandboxes that it has adopted back to Multus within --gate-timeout.", OfDriver,
		"Read the log of the driver's pod on the node. Then run kubectl nadra upgrade resume.",
	},
	{
		MultusConfigurationMissing, Upgrade, "Multus did not write its CNI configuration after its pod became ready.", OfMultus,
		"Read the log of Multus' pod on the node. Then run kubectl nadra upgrade resume.",
	},
	{
		DriverNotServing, Upgrade, "nadra's driver is not ready on the node, or offers no network there, within --gate-timeout.", OfDriver,
		"Look at the driver's pod and its log. Then run kubectl nadra upgrade resume.",
	},
	{
		CanaryFailed, Upgrade, "A canary on the node did not get its network.", OfCluster,
		"Follow the canary's message. Then run kubectl nadra upgrade resume, or roll the node back.",
	},
	{
		NetworksLost, Upgrade, "After the move of a namespace beside Multus, pods lack networks that they had before it.", OfPod,
		"Look at a pod that the message names: kubectl nadra explain pod/NAME. Then run kubectl nadra upgrade resume, or roll the namespace back.",
	},
	{
		PodsNotReady, Upgrade, "Fewer pods of a workload are ready than before the move, at the end of --gate-timeout.", OfPod,
		"Look at the workload: kubectl nadra explain -n NAMESPACE TYPE/NAME. Then run kubectl nadra upgrade resume, or roll back.",
	},

	{
		NodePodRefused, Tools, "The kubelet of a node refuses a pod that kubectl nadra runs there.", OfNode,
		"Follow the kubelet's reason, which is in the message.",
	},
	{
		NodePodTimeout, Tools, "A pod that kubectl nadra runs on a node did not start or end in time. The message has its last state.", OfNode,
		"Check that the node is ready and can pull the image (--image), or allow more time (--probe-timeout).",
	},
	{
		SandboxesUnknown, Tools, "The container runtime does not list its sandboxes, so the node cannot tell what is left over. Nothing is freed there.", OfNode,
		"Enable NRI in the container runtime's configuration, or clean up on the node by hand.",
	},
	{
		CheckpointUnreadable, Tools, "A record of nadra's driver on the node is damaged. It may stand for an attachment, so nothing is freed or removed there.", OfNode,
		"Start nadra's driver on the node, which puts damaged files aside, and try again.",
	},
	{
		OtherDELFailed, Tools, "An attachment of the same sandbox is still in a CNI cache. Its DEL may need the file or address, which therefore stays.", OfPlugin,
		"Repair what the DEL's error names, and clean up again.",
	},
	{
		NadraInUse, Tools, "Pods, claims, labels or nodes still use nadra. Only its driver can detach their networks.", OfCluster,
		"Follow the remedy of each user that the command lists.",
	},
	{
		InstalledByHelm, Tools, "Helm installed nadra, and would keep a release without objects.", OfCluster,
		"Run helm uninstall first, as the message says.",
	},
	{
		DriverRunning, Tools, "nadra's driver runs on the node, and uses the files to be removed.", OfCluster,
		"Delete the driver's DaemonSet first.",
	},
	{
		ControllerRunning, Tools, "nadra's controller runs, and would create its objects again.", OfCluster,
		"Scale the controller's Deployment to zero first.",
	},
}
