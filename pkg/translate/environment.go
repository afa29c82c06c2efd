package translate

import (
	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/operators"
)

// Options say how to convert.
type Options struct {
	// Namespace is that of objects which state none. When it is empty, default
	// is assumed, with a finding.
	Namespace string
	// DropAnnotation removes the annotation from what was converted. By default
	// it stays, so that Multus can serve the workload again.
	DropAnnotation bool
	// Pools says that nadra's nodes serve the resource pools that networks draw
	// from. Otherwise workloads that need them stay as they are.
	Pools bool
	// PoolServer says who serves a pool that no source of the input defines; nil
	// says that nadra serves all pools. It may be called from several goroutines.
	PoolServer func(pool string) PoolFacts
	// NoPodInfo leaves out the files about the pod that pods with a device of a
	// pool get.
	NoPodInfo bool
	// Operators are what network operators know and their objects do not say.
	// Where it has no namespace, that of objects which state none is taken.
	Operators operators.Options
	// RenderNetworks adds what operators would make of their objects to what is
	// created: for a cluster without these operators.
	RenderNetworks bool
	// Lookup finds networks that are not in the input; nil finds none. It may
	// be called several times for a network, and from several goroutines.
	Lookup func(attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition
	// LookupTemplate finds ResourceClaimTemplates that are not in the input, and
	// LookupRuntimeClass the handler of a RuntimeClass; nil finds none. They may
	// be called as Lookup is.
	LookupTemplate     func(namespace, name string) *resourceapi.ResourceClaimTemplate
	LookupRuntimeClass func(name string) (handler string, found bool)
	// AllNetworks says that a network which is neither in the input nor found
	// does not exist.
	AllNetworks bool
	// Templates are kinds with pod templates besides those that are known.
	Templates []TemplatePath
	// Nodes are those of the cluster into which somebody has looked; none where
	// nobody has.
	Nodes []NodeFacts
}

// NodeFacts is what one node has.
type NodeFacts struct {
	Name string
	// Plugins are the CNI plugins that can be executed, Interfaces the host's
	// with all their names.
	Plugins, Interfaces []string
}

func (o Options) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// environment is what the rules for one pod have to know of everything else.
type environment struct {
	options  Options
	networks map[attachment.NetworkRef]network
	// present are those of the networks that are only context.
	present map[attachment.NetworkRef]bool
	// pools are the resources that networks of the input draw from.
	pools map[string]bool
	// defined are the pools that sources of the input define.
	defined map[string]bool
	// handlers are those of the input's RuntimeClasses.
	handlers map[string]string
	// policies are the namespaces that have a MultiNetworkPolicy.
	policies map[string]bool
	// classes and templates are those of the input, by name and by
	// namespace/name.
	classes   map[string]bool
	templates map[string]*resourceapi.ResourceClaimTemplateSpec
	// classSpecs are the classes of the input.
	classSpecs map[string]*resourceapi.DeviceClass
}

func newEnvironment(o Options) *environment {
	return &environment{
		options:  o,
		networks: map[attachment.NetworkRef]network{}, present: map[attachment.NetworkRef]bool{},
		pools: map[string]bool{}, defined: map[string]bool{}, handlers: map[string]string{}, policies: map[string]bool{},
		classes: map[string]bool{}, templates: map[string]*resourceapi.ResourceClaimTemplateSpec{},
		classSpecs: map[string]*resourceapi.DeviceClass{},
	}
}

func (e *environment) network(ref attachment.NetworkRef) (network, bool) {
	if n, found := e.networks[ref]; found {
		return n, true
	}
	if e.options.Lookup == nil {
		return network{}, false
	}
	nad := e.options.Lookup(ref)
	if nad == nil {
		return network{}, false
	}
	n, _ := networkOf(nad)
	return n, true
}

// servable reports whether nodes would publish a network, or devices for it.
func (e *environment) servable(n network) bool {
	if n.blocked != nil || n.resourceName == "" {
		return n.blocked == nil
	}
	server := e.poolFacts(n.resourceName).Server
	return e.options.Pools && (server == PoolOfNadra || server == PoolOfDriver)
}
