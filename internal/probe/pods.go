package probe

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
)

// Kinds of the lines that a look into a node's pods gives: one for each pod,
// and at the end one about the node. Fields are added within a version, never
// renamed or removed.
const (
	PodKind  = "PodProbe"
	PodsKind = "PodsProbe"
)

// PodReport is the line about one pod.
type PodReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Pod
}

// NewPodReport is a line about a pod.
func NewPodReport(p Pod) PodReport { return PodReport{APIVersion: APIVersion, Kind: PodKind, Pod: p} }

// PodsReport is the last line.
type PodsReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Count is how many pods there were, each in a line of its own. A log that
	// lost its beginning is known by it.
	Count int `json:"count"`
	// VFs are the virtual functions of the host's cards, by PCI address.
	VFs []VF `json:"vfs,omitempty"`
	// Errors are what could not be read of the node, and why.
	Errors []string `json:"errors,omitempty"`
}

// Pod is what a node sees of one pod: its network namespace, and as much of its
// containers' environment as is about networks.
type Pod struct {
	// UID is the pod's; of a static pod, the hash that its cgroup is called by.
	UID string `json:"uid"`
	// HostNetwork says that it is in the host's network namespace, of which
	// nothing is told.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Links are its interfaces, sorted by name, without lo.
	Links []Link `json:"links,omitempty"`
	// Routes are those of all tables but the kernel's own one, local; sorted.
	Routes []Route `json:"routes,omitempty"`
	// Rules are those by which tables are chosen, sorted.
	Rules []Rule `json:"rules,omitempty"`
	// Sysctls are those of the whole namespace, e.g. net.ipv4.ip_forward.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Containers are sorted by ID. One of them is the sandbox's.
	Containers []Container `json:"containers,omitempty"`
	// Errors are what could not be read, and why.
	Errors []string `json:"errors,omitempty"`
}

// Container is one of a pod's.
type Container struct {
	// ID is the runtime's.
	ID string `json:"id"`
	// Env are those variables of its first process that KeepVariable keeps.
	Env map[string]string `json:"env,omitempty"`
}

// Link is an interface of a pod.
type Link struct {
	Name string `json:"name"`
	// Kind is the kernel's word: macvlan, veth, vlan …; device for a card's own.
	Kind string `json:"kind"`
	// Mode is that of a macvlan, an ipvlan or a bond.
	Mode string `json:"mode,omitempty"`
	MAC  string `json:"mac,omitempty"`
	MTU  int    `json:"mtu,omitempty"`
	// Up says that it was set up, Running that it could carry traffic.
	Up           bool `json:"up"`
	Running      bool `json:"running"`
	Promiscuous  bool `json:"promiscuous,omitempty"`
	AllMulticast bool `json:"allMulticast,omitempty"`
	TxQueue      int  `json:"txQueue,omitempty"`
	// VLAN is the ID of a vlan interface.
	VLAN int `json:"vlan,omitempty"`
	// Master is the interface of the pod that it is a part of: a bond, a vrf.
	Master string `json:"master,omitempty"`
	// Lower is the interface below it, or the other end of a veth; OnHost says
	// that it is one of the host's, and LowerMaster what that is a part of.
	Lower       string `json:"lower,omitempty"`
	OnHost      bool   `json:"onHost,omitempty"`
	LowerMaster string `json:"lowerMaster,omitempty"`
	// PCI is the address of the card's function.
	PCI string `json:"pci,omitempty"`
	// Addresses have their prefix length, and are sorted.
	Addresses []string `json:"addresses,omitempty"`
	// Sysctls are the interface's own, e.g. ipv4.arp_filter.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// Route is one of a pod's.
type Route struct {
	Table int `json:"table"`
	// To is a prefix, or default; IPv6 says which family that is of.
	To   string `json:"to"`
	IPv6 bool   `json:"ipv6,omitempty"`
	// Type is empty for an ordinary one, else e.g. blackhole.
	Type      string    `json:"type,omitempty"`
	Via       string    `json:"via,omitempty"`
	Interface string    `json:"interface,omitempty"`
	Source    string    `json:"source,omitempty"`
	Scope     string    `json:"scope,omitempty"`
	Protocol  string    `json:"protocol,omitempty"`
	Metric    int       `json:"metric,omitempty"`
	MTU       int       `json:"mtu,omitempty"`
	Hops      []NextHop `json:"hops,omitempty"`
}

// NextHop is one way of a route that has several.
type NextHop struct {
	Via       string `json:"via,omitempty"`
	Interface string `json:"interface,omitempty"`
	Weight    int    `json:"weight,omitempty"`
}

// Rule says for which packets a table is looked up.
type Rule struct {
	IPv6     bool `json:"ipv6,omitempty"`
	Priority int  `json:"priority"`
	Table    int  `json:"table,omitempty"`
	Not      bool `json:"not,omitempty"`
	// From and To are prefixes; empty for all.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	In   string `json:"in,omitempty"`
	Out  string `json:"out,omitempty"`
	Mark uint32 `json:"mark,omitempty"`
	Mask uint32 `json:"mask,omitempty"`
}

// VF is a virtual function and what its physical one has set for it.
type VF struct {
	// PCI is its own address.
	PCI string `json:"pci"`
	// PF is the interface of the physical function, Index its number there.
	PF    string `json:"pf,omitempty"`
	Index int    `json:"index"`
	// Driver is bound to it, e.g. vfio-pci.
	Driver string `json:"driver,omitempty"`
	MAC    string `json:"mac,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	QoS    int    `json:"qos,omitempty"`
	// Proto is the VLAN's: empty for 802.1q, else 802.1ad.
	Proto      string `json:"proto,omitempty"`
	SpoofCheck bool   `json:"spoofCheck,omitempty"`
	Trust      bool   `json:"trust,omitempty"`
	// MinRate and MaxRate are in Mbit/s; 0 for no limit.
	MinRate int `json:"minRate,omitempty"`
	MaxRate int `json:"maxRate,omitempty"`
	// LinkState is auto, enable or disable.
	LinkState string `json:"linkState,omitempty"`
}

// NodePods is all that one node says of its pods.
type NodePods struct {
	Pods   []Pod
	VFs    []VF
	Errors []string
}

// DecodePods finds the lines in what the probing pod has written, and sees that
// none is missing.
func DecodePods(log []byte) (*NodePods, error) {
	var out NodePods
	for line := range bytes.Lines(log) {
		if !bytes.HasPrefix(line, []byte(`{"apiVersion"`)) {
			continue
		}
		ended, err := out.add(line)
		if err != nil {
			return nil, fmt.Errorf("reading the probe's report: %w", err)
		}
		if ended {
			return &out, nil
		}
	}
	if said := bytes.TrimSpace(log); len(said) > 0 {
		return nil, fmt.Errorf("reading the probe's report: it has no end; the pod said: %.300s", said)
	}
	return nil, errors.New("reading the probe's report: the pod said nothing")
}

// add reads one line; ended says that it is the last one.
func (n *NodePods) add(line []byte) (ended bool, err error) {
	var head struct{ APIVersion, Kind string }
	if err := json.Unmarshal(line, &head); err != nil {
		return false, err
	}
	switch {
	case head.APIVersion == APIVersion && head.Kind == PodKind:
		var r PodReport
		if err := json.Unmarshal(line, &r); err != nil {
			return false, err
		}
		n.Pods = append(n.Pods, r.Pod)
		return false, nil
	case head.APIVersion == APIVersion && head.Kind == PodsKind:
		var r PodsReport
		if err := json.Unmarshal(line, &r); err != nil {
			return false, err
		}
		if r.Count != len(n.Pods) {
			return false, fmt.Errorf("it has %d pods of %d: the pod's log was cut; raise the kubelet's containerLogMaxSize", len(n.Pods), r.Count)
		}
		n.VFs, n.Errors = r.VFs, r.Errors
		return true, nil
	}
	return false, fmt.Errorf("it is %s %s, not %s %s: is the image of another version?", head.APIVersion, head.Kind, APIVersion, PodKind)
}
