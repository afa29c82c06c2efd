package doctor

import (
	"strings"

	"github.com/nadra-dev/nadra/internal/probe"
)

// Capabilities are what was read of a cluster.
type Capabilities struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source is what was read, for people: a cluster's context.
	Source string `json:"source,omitempty"`
	Server Server `json:"server"`
	// Nodes are sorted by name.
	Nodes []Node `json:"nodes"`
	// Networks are the NetworkAttachmentDefinitions, sorted.
	Networks []Network `json:"networks"`
	// Multus are the installations of it, sorted.
	Multus []Multus `json:"multus,omitempty"`
	// Nadra is the node driver's, if it is there.
	Nadra *Nadra `json:"nadra,omitempty"`
	// Components are schedulers and autoscalers that were recognized, sorted.
	Components []Component `json:"components,omitempty"`
	// StaticPods are those that have one of Multus' annotations, sorted.
	StaticPods []StaticPod `json:"staticPods,omitempty"`
	// Policies are the MultiNetworkPolicies and the pods that they do not see; nil
	// if the cluster has no such policies.
	Policies *Policies `json:"policies,omitempty"`
	// Whereabouts is that IPAM plugin's state, if the cluster has any.
	Whereabouts *Whereabouts `json:"whereabouts,omitempty"`
	// Gaps are what could not be read.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Server is the API server.
type Server struct {
	Version string `json:"version,omitempty"`
	// ResourceVersions are those of resource.k8s.io, the preferred one first.
	ResourceVersions []string `json:"resourceVersions,omitempty"`
	// Resources are what resource.k8s.io/v1 serves, sorted.
	Resources []string `json:"resources,omitempty"`
	// Gates are the feature gates that have to do with DRA, as its metrics
	// tell them; nil where they could not be read.
	Gates map[string]bool `json:"gates"`
}

// Node is one node.
type Node struct {
	Name    string `json:"name"`
	Kubelet string `json:"kubelet,omitempty"`
	// Runtime is e.g. containerd://2.2.6.
	Runtime string `json:"runtime,omitempty"`
	OS      string `json:"os,omitempty"`
	Image   string `json:"image,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	Arch    string `json:"arch,omitempty"`
	// Labels are those that say what the node is for.
	Labels map[string]string `json:"labels,omitempty"`
	// Config is the kubelet's; nil where it could not be read.
	Config *KubeletConfig `json:"config,omitempty"`
	// Probe is what a pod on the node saw; nil where none ran.
	Probe *probe.Report `json:"probe,omitempty"`
}

// KubeletConfig is what matters of the kubelet's configuration.
type KubeletConfig struct {
	TopologyManagerPolicy string          `json:"topologyManagerPolicy,omitempty"`
	TopologyManagerScope  string          `json:"topologyManagerScope,omitempty"`
	CPUManagerPolicy      string          `json:"cpuManagerPolicy,omitempty"`
	MemoryManagerPolicy   string          `json:"memoryManagerPolicy,omitempty"`
	FeatureGates          map[string]bool `json:"featureGates,omitempty"`
	StaticPodPath         string          `json:"staticPodPath,omitempty"`
}

// Network is a NetworkAttachmentDefinition.
type Network struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Plugins are the types of its chain, and IPAM those of its IPAM plugins.
	Plugins []string `json:"plugins,omitempty"`
	IPAM    []string `json:"ipam,omitempty"`
	// Masters are the host's interfaces that it needs.
	Masters []string `json:"masters,omitempty"`
	// Pool is the device pool that it draws from.
	Pool string `json:"pool,omitempty"`
	// OnNodes says that its configuration is a file of the nodes.
	OnNodes bool `json:"onNodes,omitempty"`
	// Error is why the configuration cannot be read.
	Error string `json:"error,omitempty"`
}

// String returns namespace/name.
func (n Network) String() string { return n.Namespace + "/" + n.Name }

// Binaries are the plugins that a node must have for the network.
func (n Network) Binaries() []string {
	return sortedSet(append(append([]string{}, n.Plugins...), n.IPAM...))
}

// Multus is one installation of it.
type Multus struct {
	// DaemonSet is its namespace and name.
	Namespace string `json:"namespace"`
	DaemonSet string `json:"daemonSet"`
	Image     string `json:"image,omitempty"`
	// Thick says that a daemon serves the plugin.
	Thick bool `json:"thick"`
	// Settings are those of its ConfigMap and its flags; nil where none are
	// known. What nodes say by --probe counts over them.
	Settings *probe.MultusSettings `json:"settings,omitempty"`
	// ConfigMap is the namespace and name that Settings came from.
	ConfigMap string `json:"configMap,omitempty"`
}

// Nadra is an installation of the node driver.
type Nadra struct {
	Namespace string `json:"namespace"`
	DaemonSet string `json:"daemonSet"`
	Image     string `json:"image,omitempty"`
	// Args are its flags.
	Args    []string `json:"args,omitempty"`
	Ready   int32    `json:"ready"`
	Desired int32    `json:"desired"`
	// PullSecrets are the names of the Secrets that its image needs.
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// Flag returns the value of one of its flags, or what it is without.
func (n *Nadra) Flag(name, otherwise string) string {
	if n == nil {
		return otherwise
	}
	for _, arg := range n.Args {
		flag, value, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
		if flag == name {
			return value
		}
	}
	return otherwise
}

// Kinds of components.
const (
	Scheduler  = "scheduler"
	Autoscaler = "autoscaler"
)

// Component is a scheduler or an autoscaler beside those of Kubernetes.
type Component struct {
	// Name is what it is called, e.g. kueue.
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Where is by what it was recognized.
	Where string `json:"where"`
}

// Policies are MultiNetworkPolicies, which go by the networks annotation.
type Policies struct {
	// Count is how many there are.
	Count int `json:"count"`
	// Unseen are the pods, as namespace/name and sorted, that have networks by a
	// claim and no annotation.
	Unseen []string `json:"unseen,omitempty"`
}

// StaticPod is a pod that a kubelet makes from a file.
type StaticPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node,omitempty"`
	// Networks is the annotation's value.
	Networks string `json:"networks"`
}

// Whereabouts is what its custom resources say.
type Whereabouts struct {
	// Pools is how many IPPools there are, Addresses how many addresses they
	// have given out, and Reservations how many OverlappingRangeIPReservations
	// there are.
	Pools        int `json:"pools"`
	Addresses    int `json:"addresses"`
	Reservations int `json:"reservations"`
	// Blind are the service accounts (namespace/name) of its reconcilers that
	// may not get pods.
	Blind []string `json:"blind,omitempty"`
}

// Parts of the cluster that may not have been read.
const (
	PartVersion     = "version"
	PartGroups      = "groups"
	PartGates       = "gates"
	PartNodes       = "nodes"
	PartConfig      = "config"
	PartProbe       = "probe"
	PartNetworks    = "networks"
	PartMultus      = "multus"
	PartComponents  = "components"
	PartStaticPods  = "staticPods"
	PartPolicies    = "policies"
	PartWhereabouts = "whereabouts"
)

// Gap is something that could not be read.
type Gap struct {
	Part string `json:"part"`
	// Node is the one that it is about, if it is about one.
	Node string `json:"node,omitempty"`
	// Reason is why.
	Reason string `json:"reason"`
	// Remedy is the permission or the flag that would give it.
	Remedy string `json:"remedy"`
}

// gap finds what could not be read of a part; a node's own gap counts before
// one that is about all of them.
func (c *Capabilities) gap(part, node string) *Gap {
	var found *Gap
	for i := range c.Gaps {
		switch g := &c.Gaps[i]; {
		case g.Part != part:
		case g.Node == node:
			return g
		case g.Node == "":
			found = g
		}
	}
	return found
}

// probed are the nodes that a pod has looked at.
func (c *Capabilities) probed() []Node {
	var out []Node
	for _, n := range c.Nodes {
		if n.Probe != nil {
			out = append(out, n)
		}
	}
	return out
}
