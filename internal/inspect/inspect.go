// Package inspect answers questions about a live cluster: what is attached to
// which pod, and where the chain from a pod's wish to its interface breaks. It
// is pure: objects in, answers out.
package inspect

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Input are the objects of a cluster, or of some namespaces of it. Slices,
// classes and networks are always those of the whole cluster, as pods refer to
// those of other namespaces.
type Input struct {
	Pods      []*corev1.Pod
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Networks  []*nadv1.NetworkAttachmentDefinition
	// Unread has the kinds that could not be read. Nothing is concluded from
	// such an object's not being there.
	Unread map[Kind]bool
}

// Kind is a kind of the input, as its resource is called.
type Kind string

// The kinds that somebody may not be allowed to read.
const (
	Templates Kind = "resourceclaimtemplates"
	Slices    Kind = "resourceslices"
	Classes   Kind = "deviceclasses"
	Networks  Kind = "network-attachment-definitions"
	Nodes     Kind = "nodes"
	Events    Kind = "events"
)

// State says how far an attachment has come.
type State string

// The states of an attachment.
const (
	// Waiting: there is no claim, or nothing is allocated for it.
	Waiting State = "Waiting"
	// Allocated: a device is allocated, and the pod not bound to its node.
	Allocated State = "Allocated"
	// Preparing: the node has not said yet what became of it.
	Preparing State = "Preparing"
	// Attached: the interface is in the pod.
	Attached State = "Attached"
	// CheckFailed: attached, but a CHECK says that it is not as it was made.
	CheckFailed State = "CheckFailed"
	// Failed: preparing or attaching has failed; it is tried again.
	Failed State = "Failed"
	// Multus: there is no claim, and Multus has attached it.
	Multus State = "Multus"
	// Unserved: the pod runs and nobody has attached it.
	Unserved State = "Unserved"
	// Unclaimed: network-status has it, and neither annotation nor claim do.
	Unclaimed State = "Unclaimed"
	// Ended: the pod has ended, and has no networks any more.
	Ended State = "Ended"
	// Gone is that of a row of a watch which is not there any more.
	Gone State = "Gone"
)

// Attachment is one network of one pod, or of a claim that no pod has.
type Attachment struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod,omitempty"`
	Node      string `json:"node,omitempty"`
	// Interface is its name in the pod; empty where that is not decided.
	Interface string `json:"interface,omitempty"`
	// Network is nil where nothing says which one it is.
	Network *attachment.NetworkRef `json:"network,omitempty"`
	Claim   string                 `json:"claim,omitempty"`
	Request string                 `json:"request,omitempty"`
	Device  string                 `json:"device,omitempty"`
	Pool    string                 `json:"pool,omitempty"`
	State   State                  `json:"state"`
	// Reason and Message say why it is not attached.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// IPs have their prefix where the claim's status says it; network-status
	// does not.
	IPs []string `json:"ips,omitempty"`
	MAC string   `json:"mac,omitempty"`
	// Notes are where the cluster contradicts itself.
	Notes []string `json:"notes,omitempty"`

	// key is the same as long as the attachment is.
	key string
}
