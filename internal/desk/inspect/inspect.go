// Package inspect answers questions about a live cluster: which networks are attached to
// which pod, and at which step a pod's way to its interfaces stops.
package inspect

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Input has the objects of a cluster, or of some of its namespaces. Slices, classes and
// networks are always those of the whole cluster, because pods refer to other namespaces.
type Input struct {
	Pods      []*corev1.Pod
	Claims    []*resourceapi.ResourceClaim
	Templates []*resourceapi.ResourceClaimTemplate
	Slices    []*resourceapi.ResourceSlice
	Classes   []*resourceapi.DeviceClass
	Networks  []*nadv1.NetworkAttachmentDefinition
	// Profiles has the nodes of each profile, or is nil if they are not known.
	Profiles map[string][]string
	// Events are about the networks and, for a chain, about the pod.
	Events []*corev1.Event
	// Unread has the kinds that could not be read. A missing object of such a kind
	// means nothing.
	Unread map[Kind]bool
	// unserved are the kinds that the cluster does not serve.
	unserved []Kind
}

// Kind is a kind of the input, by the name of its resource.
type Kind string

// The kinds that a user may not be allowed to read.
const (
	// Claims are those of other namespaces than the pod's.
	Claims    Kind = "resourceclaims"
	Templates Kind = "resourceclaimtemplates"
	Slices    Kind = "resourceslices"
	Classes   Kind = "deviceclasses"
	Networks  Kind = "network-attachment-definitions"
	Nodes     Kind = "nodes"
	Events    Kind = "events"
	// Namespaces, Workloads and Drivers are the pod's namespace, nadra's DaemonSet and Deployment, and the driver's pods.
	Namespaces Kind = "namespaces"
	Workloads  Kind = "daemonsets and deployments"
	Drivers    Kind = "the driver's pods"
)

// State is the progress of an attachment.
type State string

// The states of an attachment.
const (
	// Waiting: there is no claim, or the claim has no allocation.
	Waiting State = "Waiting"
	// Allocated: a device is allocated, and the pod is not bound to its node.
	Allocated State = "Allocated"
	// Preparing: the node has not reported a result yet.
	Preparing State = "Preparing"
	// Attached: the interface is in the pod.
	Attached State = "Attached"
	// CheckFailed: attached, but changed since, as a CHECK has found.
	CheckFailed State = "CheckFailed"
	// Failed: preparing or attaching has failed, and is retried.
	Failed State = "Failed"
	// Removed: an edit of the running pod's annotation has removed it; the claim stays.
	Removed State = "Removed"
	// Multus: there is no claim, and Multus has attached it.
	Multus State = "Multus"
	// Unserved: the pod runs, and neither nadra nor Multus has attached the network.
	Unserved State = "Unserved"
	// Unclaimed: network-status lists it, but no annotation or claim asks for it.
	Unclaimed State = "Unclaimed"
	// Ended: the pod has ended, and its networks with it.
	Ended State = "Ended"
	// Gone: in a watch, the attachment no longer exists.
	Gone State = "Gone"
)

// Attachment is one network of one pod, or of a claim without a pod.
type Attachment struct {
	Namespace string `json:"namespace"`
	Pod       string `json:"pod,omitempty"`
	Node      string `json:"node,omitempty"`
	// Interface is its name in the pod. It is empty if that is undecided.
	Interface string `json:"interface,omitempty"`
	// Network is nil if it is unknown.
	Network *attachment.NetworkRef `json:"network,omitempty"`
	Claim   string                 `json:"claim,omitempty"`
	Request string                 `json:"request,omitempty"`
	Device  string                 `json:"device,omitempty"`
	Pool    string                 `json:"pool,omitempty"`
	State   State                  `json:"state"`
	// Reason and Message describe why it is not attached.
	Reason  string `json:"reason,omitempty"`
	Message string `json:"message,omitempty"`
	// IPs have a prefix if they are from the claim's status; network-status has none.
	IPs []string `json:"ips,omitempty"`
	MAC string   `json:"mac,omitempty"`
	// Notes list contradictions between the objects.
	Notes []string `json:"notes,omitempty"`
	// ReportedAt is the number of its entry in network-status, beginning with 1, or 0.
	ReportedAt int `json:"-"`

	// key identifies the attachment for its whole life.
	key string
}
