package inspect

import "strings"

// Owner says whose job something is.
type Owner string

// The owners.
const (
	OfManifest   Owner = "the author of the pod's manifest"
	OfPod        Owner = "the pod's owner"
	OfNetwork    Owner = "the author of the NetworkAttachmentDefinition"
	OfConversion Owner = "whoever converts the workload, or nadra's webhook"
	OfScheduler  Owner = "the scheduler"
	OfController Owner = "Kubernetes' claim controller (kube-controller-manager)"
	OfCluster    Owner = "the cluster's administrator"
	OfNode       Owner = "the administrator of the node"
	OfKubelet    Owner = "the kubelet"
	OfDriver     Owner = "nadra's driver on the node"
	OfPlugin     Owner = "the CNI plugin, or what it configures"
	OfMultus     Owner = "Multus"
)

const (
	seeDriver   = "Look at the driver: kubectl -n nadra get pods -l app.kubernetes.io/name=nadra-node -o wide, and its log."
	noDriver    = "Install or repair nadra's driver there. " + seeDriver
	theyRetry   = "It is tried again on its own once the cause is gone; the pod need not be deleted."
	fixManifest = "Correct the claim or its template and create the pod anew: a claim cannot be changed once it is allocated."
)

// blame says whose job it is when a message says this.
type blame struct {
	says  []string
	whose Owner
	do    string
}

// The driver's messages name object, field and remedy; the tables only say
// who can act on them. The first that fits counts.
var (
	prepareBlames = []blame{
		{
			[]string{"not registered", "not found in the list of registered"},
			OfCluster,
			"The kubelet knows no driver net.nadra.dev on this node. " + noDriver,
		},
		{[]string{"NRI plugin"}, OfNode, "Enable NRI in containerd's configuration on the node."},
		{[]string{"was deleted", "does not exist: create it", "stands behind device"}, OfNetwork, "Create the NetworkAttachmentDefinition again, or delete the pod. " + theyRetry},
		{[]string{"interface \"", "is not in /", "install it on the node"}, OfNode, "Create the interface, or install the plugin, that the message names. " + theyRetry},
		{[]string{"spec.config", "cannot be attached on this node"}, OfNetwork, "Correct the NetworkAttachmentDefinition as the message says. " + theyRetry},
		{[]string{"namespace isolation is on", "is shared by the pods", "is not a pod"}, OfManifest, fixManifest},
		{[]string{"reading claim", "networks["}, OfManifest, fixManifest},
		{[]string{"no space left", "read-only file system"}, OfNode, "Free the node's disk: nothing is attached that cannot be written down first."},
		{[]string{""}, OfDriver, "The message is the driver's own. " + seeDriver},
	}
	attachBlames = []blame{
		{[]string{"spec.hostNetwork"}, OfManifest, "Remove spec.hostNetwork, or the claim, and create the pod anew."},
		{[]string{"correct the gateway", "has an interface of this name already"}, OfManifest, fixManifest},
		{[]string{"it is running on this node", "is it running on this node"}, OfCluster, noDriver},
		{[]string{"no IP addresses available", "no free address", "address range is full"}, OfNetwork, "The range is full: widen it in the NetworkAttachmentDefinition's IPAM, or delete pods that no longer need an address. " + theyRetry},
		{[]string{"failed to find plugin", "executable file not found", "Link not found", "no such device", "lookup master"}, OfNode, "Something that the plugin needs is not on the node: the message names it. " + theyRetry},
		{[]string{""}, OfPlugin, "The message is the plugin's own: repair what it names. " + theyRetry},
	}
)

func blamed(message string, table []blame) (Owner, string) {
	for _, b := range table {
		for _, s := range b.says {
			if strings.Contains(message, s) {
				return b.whose, b.do
			}
		}
	}
	return "", ""
}
