package doctor

import (
	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// Capabilities describes a cluster, as far as it could be read.
type Capabilities struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Source names the cluster for people: its context.
	Source string `json:"source,omitempty"`
	Server Server `json:"server"`
	// Nodes are sorted by name. SomeNodes is set if they are not all of the cluster, by --node.
	Nodes     []Node `json:"nodes"`
	SomeNodes bool   `json:"someNodes,omitempty"`
	// Networks are the NetworkAttachmentDefinitions, sorted.
	Networks []Network `json:"networks"`
	// Multus has the installations of Multus, sorted.
	Multus []Multus `json:"multus,omitempty"`
	// Nadra is the installation of the node driver. It is nil without one.
	Nadra *Nadra `json:"nadra,omitempty"`
	// Controller is the installation of nadra's controller. It is nil without one.
	Controller *Controller `json:"controller,omitempty"`
	// Webhook is the webhook that a MutatingWebhookConfiguration names. It is nil if none does.
	Webhook *Webhook `json:"webhook,omitempty"`
	// Published counts the devices that nodes offer. It is nil if it was not read.
	Published *Published `json:"published,omitempty"`
	// Waiting are the pods, as namespace/name and sorted, that ask for networks and whose containers do not run yet.
	Waiting []string `json:"waiting,omitempty"`
	// BesideMultus is set if the user says that nadra will run beside Multus on one node, before
	// nadra's own flags say it.
	BesideMultus bool `json:"besideMultus,omitempty"`
	// Readers are the workloads besides Multus that read the networks annotation of pods, or may read it,
	// sorted. They are read only for a cluster in which Multus stays on nadra's nodes.
	Readers []translate.Reader `json:"readers,omitempty"`
	// Components are the known schedulers and autoscalers that were found, sorted.
	Components []Component `json:"components,omitempty"`
	// StaticPods are the static pods with one of Multus' annotations, sorted.
	StaticPods []StaticPod `json:"staticPods,omitempty"`
	// Policies describes the MultiNetworkPolicies. It is nil if the cluster has none.
	Policies *Policies `json:"policies,omitempty"`
	// Whereabouts is the state of that IPAM plugin. It is nil if the cluster has none.
	Whereabouts *Whereabouts `json:"whereabouts,omitempty"`
	// Gaps lists what could not be read.
	Gaps []Gap `json:"gaps,omitempty"`
}

// Server describes the API server.
type Server struct {
	Version string `json:"version,omitempty"`
	// Emulated is the minor version that the API server emulates (KEP-4330), for example
	// 1.34. It is empty if that is its own.
	Emulated string `json:"emulatedVersion,omitempty"`
	// ResourceVersions are the versions of resource.k8s.io, the preferred one first.
	ResourceVersions []string `json:"resourceVersions,omitempty"`
	// Resources are the resources of resource.k8s.io/v1, sorted.
	Resources []string `json:"resources,omitempty"`
	// Gates are the feature gates about DRA, by the API server's metrics. It is nil if
	// they could not be read.
	Gates map[string]bool `json:"gates"`
}

// Node describes a node.
type Node struct {
	Name    string `json:"name"`
	Kubelet string `json:"kubelet,omitempty"`
	// Runtime is the container runtime, for example containerd://2.2.6.
	Runtime string `json:"runtime,omitempty"`
	OS      string `json:"os,omitempty"`
	Kernel  string `json:"kernel,omitempty"`
	// Image is the operating system's name, and Arch the architecture. They are for people who read the
	// facts, as in a support bundle.
	Image string `json:"image,omitempty"`
	Arch  string `json:"arch,omitempty"`
	// Labels are the labels that describe the node's purpose.
	Labels map[string]string `json:"labels,omitempty"`
	// Config is the kubelet's configuration. It is nil if it could not be read.
	Config *KubeletConfig `json:"config,omitempty"`
	// Probe is the report of a pod on the node. It is nil if none ran.
	Probe *probe.Report `json:"probe,omitempty"`
}

// KubeletConfig has the fields of the kubelet's configuration that checks use.
type KubeletConfig struct {
	TopologyManagerPolicy string          `json:"topologyManagerPolicy,omitempty"`
	TopologyManagerScope  string          `json:"topologyManagerScope,omitempty"`
	CPUManagerPolicy      string          `json:"cpuManagerPolicy,omitempty"`
	FeatureGates          map[string]bool `json:"featureGates,omitempty"`
}

// Network is a NetworkAttachmentDefinition.
type Network struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Plugins are the types in its chain, and IPAM the types of its IPAM plugins.
	Plugins []string `json:"plugins,omitempty"`
	IPAM    []string `json:"ipam,omitempty"`
	// Masters are the interfaces that it needs on the host.
	Masters []string `json:"masters,omitempty"`
	// OnNodes: its configuration is a file on the nodes.
	OnNodes bool `json:"onNodes,omitempty"`
	// Error is why the configuration cannot be read.
	Error string `json:"error,omitempty"`
}

// String returns namespace/name.
func (n Network) String() string { return n.Namespace + "/" + n.Name }

// binaries returns the plugins that a node must have for the network.
func (n Network) binaries() []string {
	return sortedSet(append(append([]string{}, n.Plugins...), n.IPAM...))
}

// Multus is an installation of Multus.
type Multus struct {
	Namespace string `json:"namespace"`
	DaemonSet string `json:"daemonSet"`
	Image     string `json:"image,omitempty"`
	// Thick: a daemon serves the plugin.
	Thick bool `json:"thick"`
	// Settings are those of its ConfigMap and its flags. It is nil if they are unknown.
	// The nodes' settings, by --probe, take precedence.
	Settings *probe.MultusSettings `json:"settings,omitempty"`
	// ConfigMap is the namespace/name of the source of Settings.
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
	// ReadyNodes are the nodes on which a pod of it is ready, sorted.
	ReadyNodes []string `json:"readyNodes,omitempty"`
	// PullSecrets are the names of the Secrets that its image needs.
	PullSecrets []string `json:"pullSecrets,omitempty"`
}

// Flag returns the value of a flag, or otherwise if the flag is not set.
func (n *Nadra) Flag(name, otherwise string) string {
	return (&Capabilities{Nadra: n}).Installation().Driver.Flag(name, otherwise)
}

// Controller is an installation of nadra's controller.
type Controller struct {
	Namespace  string `json:"namespace"`
	Deployment string `json:"deployment"`
	// Args are its flags.
	Args    []string `json:"args,omitempty"`
	Ready   int32    `json:"ready"`
	Desired int32    `json:"desired"`
}

// Webhook is the Service that the API server calls when pods are created.
type Webhook struct {
	// Configuration is the MutatingWebhookConfiguration that names the Service.
	Configuration string `json:"configuration"`
	Namespace     string `json:"namespace"`
	Service       string `json:"service"`
	// Ready counts the ready endpoints of the Service.
	Ready int `json:"ready"`
	// Untrusted are the webhooks without a caBundle, as configuration/webhook.
	Untrusted []string `json:"untrusted,omitempty"`
}

// Published counts what the driver's ResourceSlices offer.
type Published struct {
	Slices  int `json:"slices"`
	Devices int `json:"devices"`
	// Unoffered are the networks that no node offers, as namespace/name, sorted, except those left to device plugins. It is
	// nil if it was not read, as in files of older versions.
	Unoffered []string `json:"unoffered,omitzero"`
}

// Installation returns nadra's programs with their flags.
func (c *Capabilities) Installation() installation.Settings {
	var s installation.Settings
	if n := c.Nadra; n != nil {
		s.Driver = &installation.Program{Namespace: n.Namespace, Name: n.DaemonSet, Args: n.Args}
	}
	if n := c.Controller; n != nil {
		s.Controller = &installation.Program{Namespace: n.Namespace, Name: n.Deployment, Args: n.Args}
	}
	return s
}

// Beside reports whether Multus stays on nadra's nodes, or will stay there.
func (c *Capabilities) Beside() bool { return c.BesideMultus || c.Installation().BesideMultus() }

// Kinds of components.
const (
	Scheduler  = "scheduler"
	Autoscaler = "autoscaler"
)

// Component is a scheduler, a queue or an autoscaler that is not part of Kubernetes.
type Component struct {
	// Name is its common name, for example kueue.
	Name string `json:"name"`
	Kind string `json:"kind"`
	// Where is the object by which it was recognized.
	Where string `json:"where"`
}

// Policies describes the MultiNetworkPolicies, which use the networks annotation.
type Policies struct {
	Count int `json:"count"`
	// Unseen are the pods that have networks by a claim and no annotation, as
	// namespace/name and sorted.
	Unseen []string `json:"unseen,omitempty"`
}

// StaticPod is a pod that a kubelet creates from a file.
type StaticPod struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Node      string `json:"node,omitempty"`
	// Networks is the annotation's value.
	Networks string `json:"networks"`
	// Own is true if the annotation is nadra.dev/networks, which Multus does not read.
	Own bool `json:"own,omitempty"`
}

// Whereabouts has the state of whereabouts' custom resources.
type Whereabouts struct {
	// Blind are the service accounts (namespace/name) of its reconcilers that may not get
	// pods.
	Blind []string `json:"blind,omitempty"`
}

// The parts of a cluster that may be unread.
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
	PartPods        = "pods"
	PartClaims      = "claims"
	PartWebhook     = "webhook"
	PartSlices      = "slices"
	PartPolicies    = "policies"
	PartReaders     = "readers"
	PartWhereabouts = "whereabouts"
)

// Gap is a part that could not be read.
type Gap struct {
	Part string `json:"part"`
	// Node is the node, if the part is one of a node.
	Node string `json:"node,omitempty"`
	// Reason is why the part could not be read.
	Reason string `json:"reason"`
	// Remedy is the right or the flag to read it.
	Remedy string `json:"remedy"`
}

// gap returns the gap of a part, or nil. A node's own gap comes before a gap of all nodes.
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

// probed returns the nodes on which the probe has run.
func (c *Capabilities) probed() []Node {
	var out []Node
	for _, n := range c.Nodes {
		if n.Probe != nil {
			out = append(out, n)
		}
	}
	return out
}
