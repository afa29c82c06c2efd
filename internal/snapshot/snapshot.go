package snapshot

import (
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// Snapshot is what the running pods of a cluster had of networks at one time.
// Two of the same state are equal to the byte, but for Taken.
type Snapshot struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Taken is when, as RFC 3339 has it, in UTC.
	Taken string `json:"taken,omitempty"`
	// Source is what was looked at, for people: a cluster's context, or files.
	Source string `json:"source,omitempty"`
	// Namespace and Selector say which pods; empty means all.
	Namespace string `json:"namespace,omitempty"`
	Selector  string `json:"selector,omitempty"`
	// Nodes are those that a pod has looked at from inside, or was to; sorted.
	Nodes []Node `json:"nodes,omitempty"`
	// Pods are those that run and have, or ask for, networks beside the default
	// one; sorted by namespace and name.
	Pods []Pod `json:"pods"`
	// NotRunning are pods that ask for networks and do not run; sorted.
	NotRunning []NotRunning `json:"notRunning,omitempty"`
	// Networks are the NetworkAttachmentDefinitions that pods use; sorted.
	Networks []Network `json:"networks"`
}

// Node is one that was looked at.
type Node struct {
	Name string `json:"name"`
	// Errors are what could not be read, and why.
	Errors []string `json:"errors,omitempty"`
}

// Workload is what made a pod, and will make the next one.
type Workload struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
}

// Pod is what one pod has.
type Pod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
	Node      string `json:"node,omitempty"`
	// Workload is nil for a pod that nothing makes anew.
	Workload *Workload `json:"workload,omitempty"`
	// Ordinal is the number that the pod's successor will have again; nil where
	// it has none.
	Ordinal     *int `json:"ordinal,omitempty"`
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Interfaces are those of network-status, in its order, and after them such
	// as only a claim tells.
	Interfaces []Interface `json:"interfaces"`
	// Lacking are the networks that it asks for and does not have.
	Lacking []Lack `json:"lacking,omitempty"`
	// Devices are those that its claims' status tells.
	Devices []Device `json:"devices,omitempty"`
	// Env are the variables of device plugins, as far as the pod's spec and its
	// devices tell; sorted.
	Env []Variable `json:"env,omitempty"`
	// Seen is what the node saw; nil where nobody has looked.
	Seen *Seen `json:"seen,omitempty"`

	sign string // see signature
}

// String returns namespace/name.
func (p *Pod) String() string { return p.Namespace + "/" + p.Name }

// System is what attaches networks.
type System string

// The systems; empty where nothing says which one it was.
const (
	Nadra  System = "nadra"
	Multus System = "multus"
)

// Interface is an attachment as the cluster tells it.
type Interface struct {
	// Network is namespace/name of a NetworkAttachmentDefinition, and the CNI
	// name of the default network.
	Network string `json:"network"`
	Name    string `json:"interface,omitempty"`
	Default bool   `json:"default,omitempty"`
	// By is who has attached it.
	By System `json:"by,omitempty"`
	// IPs have a prefix length only where a claim tells it.
	IPs      []string    `json:"ips,omitempty"`
	MAC      string      `json:"mac,omitempty"`
	MTU      int         `json:"mtu,omitempty"`
	Gateways []string    `json:"gateways,omitempty"`
	DNS      *DNS        `json:"dns,omitempty"`
	Device   *DeviceInfo `json:"device,omitempty"`
	// Asked is what the pod asked for; nil where it did not say more than the
	// network.
	Asked *Asked `json:"asked,omitempty"`
	// Problem is why the driver says that it is not as it was made.
	Problem string `json:"problem,omitempty"`
}

// label names the interface in a message.
func (n *Interface) label() string {
	if n.Name == "" {
		return n.Network
	}
	return strings.TrimSuffix(n.Name+" ("+n.Network+")", " ()")
}

// DNS is what a network says of it.
type DNS struct {
	Nameservers []string `json:"nameservers,omitempty"`
	Domain      string   `json:"domain,omitempty"`
	Search      []string `json:"search,omitempty"`
	Options     []string `json:"options,omitempty"`
}

// DeviceInfo is the device below an interface, in the words of the device
// information specification.
type DeviceInfo struct {
	Type string `json:"type"`
	// PCI is the function's address, PF that of its physical one.
	PCI  string `json:"pci,omitempty"`
	PF   string `json:"pf,omitempty"`
	RDMA string `json:"rdma,omitempty"`
	// Path is that of a socket or a device file, Mode who opens it and how.
	Path string `json:"path,omitempty"`
	Mode string `json:"mode,omitempty"`
	// Representor is the interface that stands for it on the host.
	Representor string `json:"representor,omitempty"`
}

// Asked is what a pod asked for of one network.
type Asked struct {
	Interface string   `json:"interface,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	GUID      string   `json:"guid,omitempty"`
	DeviceID  string   `json:"deviceID,omitempty"`
	// DefaultRoute are gateways; nil where nothing was said.
	DefaultRoute *[]string `json:"defaultRoute,omitempty"`
}

// Lack is a network that a pod asks for and does not have.
type Lack struct {
	// Network is empty where nothing says which one it is.
	Network   string `json:"network,omitempty"`
	Interface string `json:"interface,omitempty"`
	// State is that of kubectl nadra get attachments.
	State  string `json:"state"`
	Reason string `json:"reason,omitempty"`
}

// Device is what the status of a claim tells of one device.
type Device struct {
	Claim     string   `json:"claim"`
	Request   string   `json:"request"`
	Driver    string   `json:"driver"`
	Pool      string   `json:"pool"`
	Device    string   `json:"device"`
	Interface string   `json:"interface,omitempty"`
	MAC       string   `json:"mac,omitempty"`
	IPs       []string `json:"ips,omitempty"`
	// Ready is the condition's status; empty where there is none.
	Ready string `json:"ready,omitempty"`
}

// Variable is one of the environment's.
type Variable struct {
	// Container is empty where it is all the same in all of them.
	Container string `json:"container,omitempty"`
	Name      string `json:"name"`
	Value     string `json:"value"`
}

// Seen is what the node saw of a pod.
type Seen struct {
	Links   []probe.Link      `json:"links"`
	Routes  []probe.Route     `json:"routes,omitempty"`
	Rules   []probe.Rule      `json:"rules,omitempty"`
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// VFs are the virtual functions that the pod has.
	VFs []probe.VF `json:"vfs,omitempty"`
	// Env are variables of the containers' first processes, sorted.
	Env []Variable `json:"env,omitempty"`
	// Errors are what could not be read, and why.
	Errors []string `json:"errors,omitempty"`
}

// link finds an interface by name.
func (s *Seen) link(name string) *probe.Link {
	for i := range s.Links {
		if s.Links[i].Name == name {
			return &s.Links[i]
		}
	}
	return nil
}

// NotRunning is a pod that asks for networks and does not run.
type NotRunning struct {
	Namespace string    `json:"namespace"`
	Name      string    `json:"name"`
	Workload  *Workload `json:"workload,omitempty"`
	Phase     string    `json:"phase"`
	// Why is what it waits for, where that is known.
	Why string `json:"why,omitempty"`
}

// Network is what matters of a NetworkAttachmentDefinition to judge whether
// something may change.
type Network struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Missing says that there is none, though pods use it.
	Missing bool     `json:"missing,omitempty"`
	Plugins []string `json:"plugins,omitempty"`
	IPAM    []string `json:"ipam,omitempty"`
	// Subnets are those that its IPAM gives addresses of, as far as its
	// configuration says it.
	Subnets []string `json:"subnets,omitempty"`
	// Static are addresses that every pod of it has, and MAC is that address.
	Static []string `json:"static,omitempty"`
	MAC    string   `json:"mac,omitempty"`
	// Pool is the resource that its devices are of.
	Pool string `json:"pool,omitempty"`
	// Digest is that of its configuration without white space.
	Digest string `json:"digest,omitempty"`
}

// String returns namespace/name.
func (n Network) String() string { return n.Namespace + "/" + n.Name }

// network finds one by namespace/name; nil where it is not there.
func (s *Snapshot) network(name string) *Network {
	for i := range s.Networks {
		if s.Networks[i].String() == name {
			return &s.Networks[i]
		}
	}
	return nil
}

// Totals are counts, for people.
type Totals struct {
	Pods, Interfaces, Networks, Nadra, Multus, Lacking, NotRunning, Seen int
}

// Totals counts what there is. Interfaces on the default network do not count.
func (s *Snapshot) Totals() Totals {
	t := Totals{Pods: len(s.Pods), Networks: len(s.Networks), NotRunning: len(s.NotRunning)}
	for i := range s.Pods {
		p := &s.Pods[i]
		if p.Seen != nil {
			t.Seen++
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
