package probe

// Kinds of the lines about a node's pods: one for each pod, and a last one about the node.
// Within a version, fields are added, and never renamed or removed.
const (
	podKind  = "PodProbe"
	PodsKind = "PodsProbe"
)

// PodReport is the line about a pod.
type PodReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	Pod
}

// NewPodReport returns the line about a pod.
func NewPodReport(p Pod) PodReport { return PodReport{APIVersion: APIVersion, Kind: podKind, Pod: p} }

// PodsReport is the last line.
type PodsReport struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Count is the number of pods, each of which has its own line. It reveals a log that
	// lost its beginning.
	Count int `json:"count"`
	// VFs are the virtual functions of the host's cards, by PCI address.
	VFs []VF `json:"vfs,omitempty"`
	// Errors lists what could not be read of the node, and why.
	Errors []string `json:"errors,omitempty"`
}

// Pod describes a pod as its node sees it: its network namespace, and the variables of its
// containers that are about networks.
type Pod struct {
	// UID is the pod's. For a static pod, it is the hash in its cgroup's name.
	UID string `json:"uid"`
	// HostNetwork: the pod is in the host's network namespace, which is not described.
	HostNetwork bool `json:"hostNetwork,omitempty"`
	// Links are its interfaces without lo, sorted by name.
	Links []Link `json:"links,omitempty"`
	// Routes are the routes of all tables except the kernel's table local, sorted.
	Routes []Route `json:"routes,omitempty"`
	// Rules are the rules that choose tables, sorted.
	Rules []Rule `json:"rules,omitempty"`
	// Sysctls are those of the whole namespace, for example net.ipv4.ip_forward.
	Sysctls map[string]string `json:"sysctls,omitempty"`
	// Containers are sorted by ID. One of them is the sandbox's.
	Containers []Container `json:"containers,omitempty"`
	// Errors lists what could not be read, and why.
	Errors []string `json:"errors,omitempty"`
}

// Container is a container of a pod.
type Container struct {
	// ID is the runtime's.
	ID string `json:"id"`
	// Env has the variables of its first process that KeepVariable keeps.
	Env map[string]string `json:"env,omitempty"`
}

// Link is an interface of a pod.
type Link struct {
	Name string `json:"name"`
	// Kind is the kernel's: macvlan, veth, vlan …, and device for a card's own interface.
	// A canary leaves it out.
	Kind string `json:"kind,omitempty"`
	// Mode is the mode of a macvlan, an ipvlan or a bond.
	Mode string `json:"mode,omitempty"`
	MAC  string `json:"mac,omitempty"`
	MTU  int    `json:"mtu,omitempty"`
	// Up: it was set up. Running: it can carry traffic.
	Up           bool `json:"up"`
	Running      bool `json:"running"`
	Promiscuous  bool `json:"promiscuous,omitempty"`
	AllMulticast bool `json:"allMulticast,omitempty"`
	TxQueue      int  `json:"txQueue,omitempty"`
	// VLAN is the ID of a vlan interface.
	VLAN int `json:"vlan,omitempty"`
	// Master is the pod's interface that contains it, a bond or a vrf.
	Master string `json:"master,omitempty"`
	// Lower is the interface below it, or the other end of a veth. OnHost: it is one of
	// the host's. LowerMaster is the interface that contains it.
	Lower       string `json:"lower,omitempty"`
	OnHost      bool   `json:"onHost,omitempty"`
	LowerMaster string `json:"lowerMaster,omitempty"`
	// PCI is the address of the card's function.
	PCI string `json:"pci,omitempty"`
	// Addresses have their prefix length, and are sorted.
	Addresses []string `json:"addresses,omitempty"`
	// Sysctls are the interface's own, for example ipv4.arp_filter.
	Sysctls map[string]string `json:"sysctls,omitempty"`
}

// Route is a route of a pod.
type Route struct {
	Table int `json:"table"`
	// To is a prefix, or "default", whose family IPv6 tells.
	To   string `json:"to"`
	IPv6 bool   `json:"ipv6,omitempty"`
	// Type is empty for an ordinary route, otherwise for example blackhole.
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

// NextHop is one of several next hops of a route.
type NextHop struct {
	Via       string `json:"via,omitempty"`
	Interface string `json:"interface,omitempty"`
	Weight    int    `json:"weight,omitempty"`
}

// Rule selects the packets for which a table is used.
type Rule struct {
	IPv6     bool `json:"ipv6,omitempty"`
	Priority int  `json:"priority"`
	Table    int  `json:"table,omitempty"`
	Not      bool `json:"not,omitempty"`
	// From and To are prefixes. Empty means all.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	In   string `json:"in,omitempty"`
	Out  string `json:"out,omitempty"`
	Mark uint32 `json:"mark,omitempty"`
	Mask uint32 `json:"mask,omitempty"`
}

// VF is a virtual function with the settings that its physical function has for it.
type VF struct {
	// PCI is its own address.
	PCI string `json:"pci"`
	// PF is the interface of the physical function, and Index the function's number there.
	PF    string `json:"pf,omitempty"`
	Index int    `json:"index"`
	// Driver is the driver that is bound to it, for example vfio-pci.
	Driver string `json:"driver,omitempty"`
	MAC    string `json:"mac,omitempty"`
	VLAN   int    `json:"vlan,omitempty"`
	QoS    int    `json:"qos,omitempty"`
	// Proto is the VLAN's protocol: empty for 802.1q, or 802.1ad.
	Proto      string `json:"proto,omitempty"`
	SpoofCheck bool   `json:"spoofCheck,omitempty"`
	Trust      bool   `json:"trust,omitempty"`
	// MinRate and MaxRate are in Mbit/s. 0 means no limit.
	MinRate int `json:"minRate,omitempty"`
	MaxRate int `json:"maxRate,omitempty"`
	// LinkState is auto, enable or disable.
	LinkState string `json:"linkState,omitempty"`
}

// NodePods has the reports of a node about its pods.
type NodePods struct {
	Pods   []Pod
	VFs    []VF
	Errors []string
}
