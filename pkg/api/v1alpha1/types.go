package v1alpha1

import (
	"encoding/json"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// AttachmentConfig says how one network is attached to a pod. Every field is
// optional; what is absent is left to the network and its plugins.
//
// +k8s:deepcopy-gen:interfaces=k8s.io/apimachinery/pkg/runtime.Object
type AttachmentConfig struct {
	metav1.TypeMeta `json:",inline"`

	// Network is the NetworkAttachmentDefinition. When absent, the one that
	// the allocated device stands for is meant; when present, it must be that one.
	Network *NetworkReference `json:"network,omitempty"`

	// Interface is the interface's name in the pod, 1 to 15 bytes. When
	// absent, it is net<n>, where n is the attachment's position in the pod,
	// counted from 1.
	Interface string `json:"interface,omitempty"`

	// IPs are the addresses to ask for, each with or without a prefix length,
	// e.g. "10.1.2.3/24". Not together with IPAMClaimReference.
	IPs []string `json:"ips,omitempty"`

	// MAC is the hardware address to ask for, 6 bytes, e.g. "02:00:5e:10:00:01".
	MAC string `json:"mac,omitempty"`

	// InfinibandGUID is the GUID to ask for, 8 bytes, e.g. "02:00:5e:10:00:01:00:01".
	InfinibandGUID string `json:"infinibandGUID,omitempty"`

	// CNIArgs go into "args.cni" of every plugin of the network's chain. A key
	// given here replaces that key of the network's own configuration.
	CNIArgs map[string]json.RawMessage `json:"cniArgs,omitempty"`

	// PortMappings are forwarded from the node to the interface.
	PortMappings []PortMapping `json:"portMappings,omitempty"`

	// Bandwidth limits the interface's traffic.
	Bandwidth *Bandwidth `json:"bandwidth,omitempty"`

	// DefaultRoute are the gateways of the pod's default route, which then
	// leaves by this interface. Absent and empty differ: an empty list takes
	// the default route away from the pod's primary network and gives no other.
	DefaultRoute *[]string `json:"defaultRoute,omitempty"`

	// DeviceID names the hardware device to use, e.g. a PCI address.
	DeviceID string `json:"deviceID,omitempty"`

	// IPAMClaimReference is the name of an IPAMClaim in the pod's namespace.
	// The network's IPAM plugin reads it; nadra only carries it.
	IPAMClaimReference string `json:"ipamClaimReference,omitempty"`
}

// NetworkReference names a NetworkAttachmentDefinition.
type NetworkReference struct {
	// Namespace is the claim's own when absent.
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
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

// Bandwidth limits traffic. Rates are in bits per second, bursts in bits; zero
// is no limit. Its JSON form is also that of the CNI capability "bandwidth",
// to which Multus always sends all four values (behaviour A2-21).
type Bandwidth struct {
	IngressRate  int64 `json:"ingressRate"`
	IngressBurst int64 `json:"ingressBurst"`
	EgressRate   int64 `json:"egressRate"`
	EgressBurst  int64 `json:"egressBurst"`
}
