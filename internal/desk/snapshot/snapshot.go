package snapshot

import (
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// Snapshot records the networks of a cluster's running pods. Two snapshots of the same
// state are equal byte by byte, except for Taken.
type Snapshot struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Taken is the time in the format of RFC 3339, in UTC.
	Taken string `json:"taken,omitempty"`
	// Source names the cluster's context or the files for people.
	Source string `json:"source,omitempty"`
	// Namespace and Selector limit the pods; empty means all.
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
	// Nodes are the nodes that were inspected, or could not be; sorted.
	Nodes []Node `json:"nodes,omitempty"`
	// Pods are the running pods that have or request networks besides the default
	// network; sorted by namespace and name.
	Pods []Pod `json:"pods"`
	// NotRunning are pods that request networks and do not run; sorted.
	NotRunning []NotRunning `json:"notRunning,omitempty"`
	// Networks are the NetworkAttachmentDefinitions that pods use; sorted.
	Networks []Network `json:"networks"`
}

// Node is a node that was inspected, or could not be.
type Node struct {
	Name string `json:"name"`
	// Errors are the errors of inspecting it.
	Errors []string `json:"errors,omitempty"`
}

// Workload is the workload that created a pod and would recreate it.
type Workload struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Pod records a pod and its networks.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Node      string `json:"node,omitempty"`
	// Workload is nil for a bare pod.
	Workload *Workload `json:"workload,omitempty"`
	// Ordinal is the ordinal that the pod shares with its successor, or nil.
	Ordinal     *int `json:"ordinal,omitempty"`
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Interfaces are the entries of network-status, in its order, followed by interfaces
	// that only a claim's status has.
	Interfaces []Interface `json:"interfaces"`
	// Lacking are the networks that the pod requests and does not have.
	Lacking []Lack `json:"lacking,omitempty"`
	// Devices are the devices in the status of the pod's claims.
	Devices []Device `json:"devices,omitempty"`
	// Env are the variables of device plugins that follow from the pod's spec and
	// devices; sorted.
	Env []variable `json:"env,omitempty"`
	// Observed is what the node observed; nil if it was not inspected.
	Observed *Observed `json:"observed,omitempty"`

	sign string // see signature
}

// String returns namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// System is a system that attaches networks.
type System string

// The systems; empty if the system is unknown.
const (
	Nadra  System = "nadra"
	Multus System = "multus"
)

// Interface is an attachment as the cluster's objects report it.
type Interface struct {
	// Network is namespace/name of a NetworkAttachmentDefinition, or the CNI
	// name of the default network.
	Network string `json:"network"`
	Name    string `json:"interface,omitempty"`
	Default bool   `json:"default,omitempty"`
	// By is the system that attached it.
	By System `json:"by,omitempty"`
	// IPs have a prefix length only if they are from a claim's status.
	IPs      []string    `json:"ips,omitempty"`
	MAC      string      `json:"mac,omitempty"`
	MTU      int         `json:"mtu,omitempty"`
	Gateways []string    `json:"gateways,omitempty"`
	DNS      *DNS        `json:"dns,omitempty"`
	Device   *DeviceInfo `json:"device,omitempty"`
	// Requested is what the pod requested; nil if it only named the network.
	Requested *Requested `json:"requested,omitempty"`
	// Problem is the message of a failed CHECK.
	Problem string `json:"problem,omitempty"`
}

// label returns the interface's name and network for messages.
func (n *Interface) label() string {
	if n.Name == "" {
		return n.Network
	}
	return strings.TrimSuffix(n.Name+" ("+n.Network+")", " ()")
}

// DNS has the DNS settings of a network.
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// DeviceInfo describes the device of an interface in the terms of the device information
// specification.
type DeviceInfo struct {
	Type string `json:"type"`
	// PCI is the function's address, PF the address of its physical function.
	PCI  string `json:"pci,omitempty"`
	PF   string `json:"pf,omitempty"`
	RDMA string `json:"rdma,omitempty"`
	// Path is the path of a socket or a device file, Mode its mode.
	Path string `json:"path,omitempty"`
	Mode string `json:"mode,omitempty"`
	// Representor is the function's representor on the host.
	Representor string `json:"representor,omitempty"`
}

// Requested is what a pod requested of a network.
type Requested struct {
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	GUID      string   `json:"guid,omitempty"`
	DeviceID  string   `json:"deviceID,omitempty"`
	// DefaultRoute are gateways; nil if the pod did not request the default route.
	DefaultRoute *[]string `json:"defaultRoute,omitempty"`
}

// Lack is a network that a pod requests and does not have.
type Lack struct {
	// Network is empty if it is unknown.
	Network   string `json:"network,omitempty"`
	Interface string `json:"interface,omitempty"`
	// State is the state in kubectl nadra get attachments.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Device is a device in the status of a claim.
type Device struct {
	Claim     string   `json:"claim"`
	Request   string   `json:"request"`
	Driver    string   `json:"driver"`
	Pool      string   `json:"pool"`
	Device    string   `json:"device"`
	Interface string   `json:"interface,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	// Ready is the status of the condition Ready; empty without one.
	Ready string `json:"ready,omitempty"`
}

// variable is an environment variable.
type variable struct {
	// Container is empty for a variable of all containers.
	Container string `json:"container,omitempty"`
	Name      string `json:"name"`
	Value     string `json:"value"`
}

// Observed is what the node observed of a pod.
type Observed struct {
	Links   []probe.Link      `json:"links"`
	Routes  []probe.Route     `json:"routes,omitempty"`
	Rules   []probe.Rule      `json:"rules,omitempty"`
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// VFs are the pod's virtual functions.
	VFs []probe.VF `json:"vfs,omitempty"`
	// Env are variables of the containers' first processes, sorted.
	Env []variable `json:"env,omitempty"`
	// Errors are the errors of inspecting the pod.
	Errors []string `json:"errors,omitempty"`
}

// link finds an interface by name.
func (o *Observed) link(name string) *probe.Link {
	for i := range o.Links {
		if o.Links[i].Name == name {
			return &o.Links[i]
		}
	}
	return nil
}

// NotRunning is a pod that requests networks and does not run.
type NotRunning struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Workload  *Workload `json:"workload,omitempty"`
	Phase     string    `json:"phase"`
	// Why is what it waits for, if that is known.
	Why string `json:"why,omitempty"`
}

// Network records of a NetworkAttachmentDefinition what decides whether a pod's
// interface may change.
type Network struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Missing is true if pods use it and it does not exist.
	Missing bool     `json:"missing,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	IPAM    []string `json:"ipam,omitempty"`
	// Subnets are the subnets in its IPAM configuration.
	Subnets []string `json:"subnets,omitempty"`
	// Static and MAC are addresses that every pod of the network has.
	Static []string `json:"static,omitempty"`
	MAC    string   `json:"mac,omitempty"`
	// Pool is the resource pool of its devices.
	Pool string `json:"pool,omitempty"`
	// Digest is the hash of its configuration without white space.
	Digest string `json:"digest,omitempty"`
}

// String returns namespace/name.
func (n Network) String() string { return n.Namespace + "/" + n.Name }

// indexed is a snapshot with its networks by namespace/name.
type indexed struct {
	*Snapshot
	networks map[string]*Network
}

func index(s *Snapshot) *indexed {
	out := &indexed{s, map[string]*Network{}}
	for i := range s.Networks {
		out.networks[s.Networks[i].String()] = &s.Networks[i]
	}
	return out
}

// Totals are the totals of a snapshot.
type Totals struct {
	Pods, Interfaces, Networks, Nadra, Multus, Lacking, NotRunning, Observed int
}

// Totals counts the snapshot's contents. It does not count interfaces on the default
// network.
func (s *Snapshot) Totals() Totals {
	t := Totals{Pods: len(s.Pods), Networks: len(s.Networks), NotRunning: len(s.NotRunning)}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Observed != nil {
			t.Observed++
		}
		t.Lacking += len(p.Lacking)
		for _, n := range p.Interfaces {
			if n.Default {
				continue
			}
			t.Interfaces++
			switch n.By {
			case Nadra:
				t.Nadra++
			case Multus:
				t.Multus++
			}
		}
	}
	return t
}
