package reason

// Owner is the person or component that can remove a cause.
type Owner string

// The owners.
const (
	OfManifest   Owner = "the author of the pod's manifest"
	OfPod        Owner = "the pod's owner"
	OfNetwork    Owner = "the author of the NetworkAttachmentDefinition"
	OfConversion Owner = "the person who converts the workload, or nadra's webhook"
	OfScheduler  Owner = "the scheduler"
	OfController Owner = "Kubernetes' claim controller (kube-controller-manager)"
	OfCluster    Owner = "the cluster's administrator"
	OfNode       Owner = "the administrator of the node"
	OfKubelet    Owner = "the kubelet"
	OfDriver     Owner = "nadra's driver on the node"
	OfPlugin     Owner = "the CNI plugin, or what it configures"
	OfMultus     Owner = "Multus"
)
