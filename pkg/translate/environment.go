package translate

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	resourceapi "k8s.io/api/resource/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Options control a conversion.
type Options struct {
	// Namespace is the namespace of objects that state none. If it is empty, "default" is
	// assumed, with a finding.
	Namespace string
	// DropAnnotation removes the annotation from converted workloads. By default it stays, so
	// that Multus can serve the workload again.
	DropAnnotation bool
	// BesideMultus is set for a cluster in which Multus stays on nadra's nodes. Converted workloads get
	// the annotation attachment.OwnNetworksAnnotation in place of the one by which Multus would
	// attach the same networks, too.
	BesideMultus bool
	// Readers are the programs of the cluster that read the annotation of pods.
	Readers []Reader
	// Pools is set if nadra's nodes serve the resource pools from which networks draw.
	// Otherwise workloads that need them stay as they are.
	Pools bool
	// PoolServer returns what serves a pool that no source of the input defines. If it is nil,
	// nadra serves all pools. Several goroutines may call it.
	PoolServer func(pool string) PoolFacts
	// DeviceClasses has the classes by which pods request devices of other drivers for networks, by the network's
	// namespace/name or by its pool.
	DeviceClasses map[string]string
	// NoPodInfo leaves out the volume with the pod's labels and annotations, which pods with a
	// device of a pool get.
	NoPodInfo bool
	// NoVirtualMachines leaves virtual machines of KubeVirt to Multus.
	NoVirtualMachines bool
	// ResourcePrefix is the prefix of pools that SriovNetworkNodePolicies of the input define; empty is
	// the default of sriov-network-operator.
	ResourcePrefix string
	// NoClasses leaves out DeviceClasses, for a cluster in which nadra's controller creates them.
	NoClasses bool
	// Lookup finds networks that are not in the input; nil finds none. Several goroutines may
	// call it, and several times for one network.
	Lookup func(attachment.NetworkRef) *nadv1.NetworkAttachmentDefinition
	// LookupTemplate finds ResourceClaimTemplates that are not in the input, and
	// LookupRuntimeClass the handlers of RuntimeClasses; nil finds none. They may be called as
	// Lookup is.
	LookupTemplate     func(namespace, name string) *resourceapi.ResourceClaimTemplate
	LookupRuntimeClass func(name string) (handler string, found bool)
	// AllNetworks is set if a network that is neither in the input nor found does not exist. With
	// AwaitNetworks, pods wait for such a network.
	AllNetworks, AwaitNetworks bool
	// Templates has further kinds with pod templates.
	Templates []TemplatePath
	// ClusterRanges has addresses that pods reach by eth0, as far as they are known.
	ClusterRanges []ClusterRange
	// Nodes has the facts of the nodes that were inspected.
	Nodes []NodeFacts
}

// NodeFacts is what one node has.
type NodeFacts struct {
	Name string
	// Plugins has the names of the executable CNI plugins, Interfaces all names of the host's
	// interfaces.
	Plugins, Interfaces []string
}

// leavesMachines reports whether virtual machines are left to Multus. KubeVirt reads the annotation that
// converted pods do not have beside Multus.
func (o Options) leavesMachines() bool { return o.NoVirtualMachines || o.BesideMultus }

// namespace returns the namespace of objects that state none.
func (o Options) namespace() string {
	if o.Namespace == "" {
		return "default"
	}
	return o.Namespace
}

// environment is what the rules for one pod know about other objects.
type environment struct {
	options  Options
	networks map[attachment.NetworkRef]network
	// present has the networks of the context.
	present map[attachment.NetworkRef]bool
	// made has the objects of the input of which an operator makes networks that the input does not have.
	made map[attachment.NetworkRef]maker
	// pools has the resources from which networks of the input draw.
	pools map[string]bool
	// defined has the pools that sources of the input define.
	defined map[string]bool
	// handlers has the handlers of the input's RuntimeClasses.
	handlers map[string]string
	// policies has the namespaces with a MultiNetworkPolicy.
	policies map[string]bool
	// classes and templates have the input's DeviceClasses by name and its
	// ResourceClaimTemplates by namespace/name.
	classes   map[string]bool
	templates map[string]*resourceapi.ResourceClaimTemplateSpec
	// classSpecs has the specs of the input's classes.
	classSpecs map[string]*resourceapi.DeviceClass
	// places has where each template is defined.
	places map[string][]string
	units  units
	// usedClasses has the keys of Options.DeviceClasses that were asked for.
	usedClasses sync.Map
}

func newEnvironment(o Options) *environment {
	return &environment{
		options:  o,
		networks: map[attachment.NetworkRef]network{}, present: map[attachment.NetworkRef]bool{}, made: map[attachment.NetworkRef]maker{},
		pools: map[string]bool{}, defined: map[string]bool{}, handlers: map[string]string{}, policies: map[string]bool{},
		classes: map[string]bool{}, templates: map[string]*resourceapi.ResourceClaimTemplateSpec{},
		classSpecs: map[string]*resourceapi.DeviceClass{}, places: map[string][]string{},
	}
}

// network returns a network of the input or the cluster.
func (e *environment) network(ref attachment.NetworkRef) (network, bool) {
	n, found := e.lookup(ref)
	n.deviceClass = cmp.Or(e.otherClass(ref.String()), e.otherClass(n.resourceName))
	return n, found
}

// otherClass returns the class that the options have for a network or a pool, or "".
func (e *environment) otherClass(of string) string {
	class := e.options.DeviceClasses[of]
	if class != "" {
		e.usedClasses.Store(of, true)
	}
	return class
}

// unusedClasses returns the networks and pools of Options.DeviceClasses that nothing has asked for, sorted.
func (e *environment) unusedClasses() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(e.options.DeviceClasses)), func(of string) bool {
		_, used := e.usedClasses.Load(of)
		return used
	})
}

func (e *environment) lookup(ref attachment.NetworkRef) (network, bool) {
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

// obstacle returns why nadra could not attach a network, apart from what serves its pool, or "". found is whether
// the network exists, as far as the input shows.
func (e *environment) obstacle(ref attachment.NetworkRef, n network, found bool) (code Code, message string) {
	switch {
	case !found && e.options.AwaitNetworks:
		return NetworkAwaited, fmt.Sprintf("the pod waits for %s", ref)
	case !found && e.options.AllNetworks:
		return NetworkMissing, fmt.Sprintf("%s does not exist%s", ref, e.origin(ref))
	case !found && e.made[ref].draws:
		return NetworkMayDraw, fmt.Sprintf("%s is not in the input, and draws from a pool%s", ref, e.origin(ref))
	case !found:
		return NetworkNotInInput, fmt.Sprintf("%s is not in the input%s", ref, e.origin(ref))
	case n.blocked != nil:
		return NetworkUnusable, reason.Message(n.blocked)
	case n.claimedAlone != nil && n.deviceClass == "":
		return NetworkUnusable, reason.Message(n.claimedAlone)
	case n.resourceName != "" && !e.options.Pools:
		return PoolsNotServedUser, fmt.Sprintf("%s draws from pool %s", ref, n.resourceName)
	}
	return "", ""
}

// origin returns a hint at where a network comes from that the input does not have, or "": the object of which an
// operator makes it, or networks with the same name in other namespaces.
func (e *environment) origin(ref attachment.NetworkRef) string {
	if m, found := e.made[ref]; found {
		hint := fmt.Sprintf("; its NAD is made by %s", m.object)
		if !e.options.AllNetworks {
			hint += ": read it from the cluster with --with-cluster, or add the NAD"
		}
		return hint
	}
	var others []string
	for other := range e.made {
		if other.Name == ref.Name {
			others = append(others, other.String())
		}
	}
	for other, n := range e.networks {
		switch {
		case other.Name != ref.Name || other.Namespace == ref.Namespace:
		case n.unstated:
			others = append(others, fmt.Sprintf("%s, which states no namespace (give its namespace with -n)", ref.Name))
		default:
			others = append(others, other.String())
		}
	}
	if len(others) == 0 {
		return ""
	}
	return "; there is " + strings.Join(sortedSet(others), " and ")
}

// servable reports whether nodes would publish a network or devices for it.
func (e *environment) servable(n network) bool {
	if n.blocked != nil || n.resourceName == "" {
		return n.blocked == nil
	}
	server := e.poolFacts(n.resourceName).Server
	return e.options.Pools && (server == PoolOfNadra || server == PoolOfDriver)
}
