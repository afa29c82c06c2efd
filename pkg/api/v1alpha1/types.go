package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AttachmentConfig configures the attachment of one network to a pod. Every field is
// optional: without it, the network and its plugins decide.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AttachmentConfig struct {
	metav1.TypeMeta `json:",inline"`

	// Network is the NetworkAttachmentDefinition. It must be that of the allocated device,
	// which is also the default.
	Network *NetworkReference `json:"network,omitempty"`

	// Interface is the interface's name in the pod, 1 to 15 bytes. The default is net<n>,
	// where n is the attachment's position in the pod, counted from 1.
	Interface string `json:"interface,omitempty"`

	// IPs are the requested addresses, each with or without a prefix length, for example
	// "10.1.2.3/24". They exclude IPAMClaimReference.
	IPs []string `json:"ips,omitempty"`

	// MAC is the requested hardware address, 6 bytes, for example "02:00:5e:10:00:01".
	MAC string `json:"mac,omitempty"`

	// InfinibandGUID is the requested GUID, 8 bytes, for example
	// "02:00:5e:10:00:01:00:01".
	InfinibandGUID string `json:"infinibandGUID,omitempty"`

	// CNIArgs are added to "args.cni" of every plugin of the network's chain. A key here
	// replaces the same key in the network's configuration.
	CNIArgs map[string]json.RawMessage `json:"cniArgs,omitempty"`

	// PortMappings are forwarded from the node to the interface.
	PortMappings []PortMapping `json:"portMappings,omitempty"`

	// Bandwidth limits the interface's traffic.
	Bandwidth *Bandwidth `json:"bandwidth,omitempty"`

	// DefaultRoute has the gateways of the pod's default route, which then uses this
	// interface. An empty list removes the default route of the pod's primary network
	// without a replacement; an absent one does not.
	DefaultRoute *[]string `json:"defaultRoute,omitempty"`

	// DeviceID is the ID of the hardware device to use, for example a PCI address.
	DeviceID string `json:"deviceID,omitempty"`

	// DeviceFrom is the name of another request of the same claim, or request/subrequest. The
	// network uses the device of another driver that was allocated for it. It excludes DeviceID.
	DeviceFrom string `json:"deviceFrom,omitempty"`

	// IPAMClaimReference is the name of an IPAMClaim in the pod's namespace. nadra passes
	// it to the network's IPAM plugin.
	IPAMClaimReference string `json:"ipamClaimReference,omitempty"`
}

// NetworkReference names a NetworkAttachmentDefinition.
type NetworkReference struct {
	// Namespace defaults to the claim's namespace.
	Namespace string `json:"namespace,omitempty"`
	// Name is required.
	Name string `json:"name"`
}

// PortMapping forwards one port of the node. Its JSON form is also that of the
// CNI capability "portMappings".
type PortMapping struct {
	// HostPort is the port on the node, 1 to 65535.
	HostPort int32 `json:"hostPort"`
	// ContainerPort is the port in the pod, 1 to 65535.
	ContainerPort int32 `json:"containerPort"`
	// Protocol is tcp (the default), udp or sctp, in upper or lower case.
	Protocol string `json:"protocol,omitempty"`
	// HostIP restricts the mapping to one address of the node.
	HostIP string `json:"hostIP,omitempty"`
}

// Bandwidth limits traffic. Rates are in bits per second, bursts in bits; zero means no
// limit. Its JSON form is also that of the CNI capability "bandwidth", for which Multus
// always sends all four values (behaviour A2-21).
type Bandwidth struct {
	// IngressRate limits what the pod receives.
	IngressRate int64 `json:"ingressRate"`
	// IngressBurst is what the pod may receive at once beyond the rate.
	IngressBurst int64 `json:"ingressBurst"`
	// EgressRate limits what the pod sends.
	EgressRate int64 `json:"egressRate"`
	// EgressBurst is what the pod may send at once beyond the rate.
	EgressBurst int64 `json:"egressBurst"`
}
