package translate

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/netip"
	"reflect"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// network is what the rules need of a NetworkAttachmentDefinition.
type network struct {
	resourceName string
	// nodeSelector is the value of its annotation.
	nodeSelector string
	// chain has the plugins, and plugins their types. ipam is the first IPAM plugin of the chain.
	chain   []attachment.Plugin
	plugins []string
	ipam    string
	// binaries and masters are the plugins and interfaces that a node must have, each once.
	binaries, masters []string
	// localRanges are the masters on which each node hands out addresses. routes are the destinations of the
	// routes that it adds, by its IPAM plugin or by route-override, without default routes. fixed is set if each
	// pod gets the same addresses.
	localRanges []string
	routes      []netip.Prefix
	fixed       bool
	// poolless is the plugin that needs a device if no pool provides one, or empty.
	poolless string
	// capabilities has the capabilities that plugins of the chain declare.
	capabilities []string
	// claimedAlone is why pods cannot attach the network by their annotation, or nil.
	claimedAlone error
	// deviceClass is the class by which a pod requests a device of another driver for the network, or empty.
	deviceClass string
	// unstated is set if the definition is in the input and states no namespace.
	unstated bool
	// blocked is set if the configuration cannot be used.
	blocked error
}

const nadGroup, nadKind = "k8s.cni.cncf.io", "NetworkAttachmentDefinition"

func isNetwork(o object) bool { return o.group == nadGroup && o.ref.Kind == nadKind }

// refOf returns the name of the network that an object defines.
func refOf(o ObjectRef) attachment.NetworkRef {
	return attachment.NetworkRef{Namespace: o.Namespace, Name: o.Name}
}

// networkOf reads a definition. It returns attachment.ErrNoConfig, without blocking the network,
// if the configuration is a file on the nodes.
func networkOf(nad *nadv1.NetworkAttachmentDefinition) (network, error) {
	n := network{
		resourceName: attachment.PoolOf(nad.Annotations),
		nodeSelector: nad.Annotations[attachment.NodeSelectorAnnotation],
	}
	parsed, err := attachment.ParseNetwork(nad)
	if err != nil && !errors.Is(err, attachment.ErrNoConfig) {
		n.blocked = err
	}
	if agent := agentOf(parsed); agent != "" {
		n.blocked = reason.Errorf(reason.NetworkInvalid, "%s attaches network %s, not a CNI plugin", agent, parsed.Ref)
	}
	n.claimedAlone = parsed.CheckNoDeviceFrom()
	if n.resourceName == "" && n.claimedAlone == nil {
		n.poolless = poolless(parsed)
	}
	n.chain = parsed.Plugins
	var ipams []string
	n.plugins, ipams = parsed.Programs()
	n.ipam = cmp.Or(ipams...)
	for _, p := range n.chain {
		n.masters, n.capabilities = append(n.masters, p.Master), append(n.capabilities, p.Capabilities...)
		if p.IPAM.Plugin().PerNode {
			n.localRanges = append(n.localRanges, p.Master)
		}
		for _, route := range p.Routes {
			if dst, err := netip.ParsePrefix(route.Dst); err == nil && dst.Bits() > 0 {
				n.routes = append(n.routes, dst.Masked())
			}
		}
		n.fixed = n.fixed || len(p.IPAM.Fixed()) > 0
	}
	n.binaries, n.masters, n.localRanges = nonEmptySet(slices.Concat(n.plugins, ipams)), nonEmptySet(n.masters), nonEmptySet(n.localRanges)
	return n, err
}

// inputNetwork is a NetworkAttachmentDefinition of the input.
type inputNetwork struct {
	*reporter
	network
	ref attachment.NetworkRef
	// config is spec.config of a definition.
	config string
	// duplicate is set if another object of the input is the network.
	duplicate bool
}

// read checks a NetworkAttachmentDefinition and records its configuration. defined has the first
// definition of each name.
func (n *inputNetwork) read(e *environment, defined map[attachment.NetworkRef]*inputNetwork) {
	pool := n.object.path.Child("metadata", "annotations", attachment.ResourceNameAnnotation)
	n.config = n.object.get("spec", "config").str()
	n.resourceName = n.object.annotation(attachment.ResourceNameAnnotation).str()
	if first := defined[n.ref]; first != nil {
		n.duplicate = true
		n.compareWith(first, e)
		return
	}
	defined[n.ref] = n
	n.readConfig()
	n.checkKeys(pool)
	if n.unstated && n.ref.Namespace != "" && e.options.Namespace == "" {
		n.add(NamespaceAssumed, n.object.path.Child("metadata", "namespace"), n.doc.at(n.object.node), "assumed %q", n.ref.Namespace)
	}
	n.checkName()
	n.checkAltered(e)
	n.checkNodes(e, n.object.path.Child("spec", "config"))
	n.checkHazards(e, n.object.path.Child("spec", "config"))
	n.index(e, pool)
}

// compareWith reports a second definition that differs from the first one. Nobody can know which of the
// two a cluster has, so that no workload can be judged by either.
func (n *inputNetwork) compareWith(first *inputNetwork, e *environment) {
	var others []string
	for _, key := range differences(first.config, n.config) {
		others = append(others, "spec.config "+key)
	}
	for _, name := range []string{attachment.ResourceNameAnnotation, attachment.NodeSelectorAnnotation, attachment.DeviceFromAnnotation} {
		if first.object.annotation(name).str() != n.object.annotation(name).str() {
			others = append(others, name)
		}
	}
	if len(others) == 0 {
		return
	}
	at, firstAt, keys := n.doc.at(n.object.node), first.doc.at(first.object.node), strings.Join(others, ", ")
	n.add(NetworkTwice, n.object.path, at, "%s defines %s, too, with another value of %s", firstAt, n.ref, keys)
	if !first.has(NetworkTwice) {
		first.add(NetworkTwice, first.object.path, firstAt, "%s defines %s, too, with another value of %s", at, n.ref, keys)
	}
	first.blocked = reason.Errorf(reason.NetworkInvalid, "%s and %s define network %s differently", firstAt, at, n.ref)
	e.networks[n.ref] = first.network
}

// differences returns the top-level keys whose JSON values differ. It treats invalid JSON as an
// empty object.
func differences(a, b string) []string {
	var x, y map[string]any
	_ = json.Unmarshal([]byte(a), &x)
	_ = json.Unmarshal([]byte(b), &y)
	var keys []string
	for _, key := range sortedSet(slices.Concat(slices.Collect(maps.Keys(x)), slices.Collect(maps.Keys(y)))) {
		if !reflect.DeepEqual(x[key], y[key]) {
			keys = append(keys, key)
		}
	}
	return keys
}

// readConfig checks spec.config and the annotations.
func (n *inputNetwork) readConfig() {
	o := n.object
	config := o.get("spec", "config")
	if config.node != nil && len(config.node.Content) > 0 {
		n.blocked = reason.Errorf(reason.NetworkInvalid, "spec.config: must be a string")
		n.addAt(NetworkNotJSON, config, "must be a string that contains JSON")
		return
	}
	nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: n.config}}
	nad.Namespace, nad.Name = n.ref.Namespace, n.ref.Name
	nad.Annotations = map[string]string{
		attachment.ResourceNameAnnotation: n.resourceName,
		attachment.NodeSelectorAnnotation: o.annotation(attachment.NodeSelectorAnnotation).str(),
	}
	if value := o.annotation(attachment.DeviceFromAnnotation); value.node != nil {
		nad.Annotations[attachment.DeviceFromAnnotation] = value.str()
	}
	var err error
	n.network, err = networkOf(nad)
	n.unstated = o.stated == ""
	switch {
	case n.blocked != nil && err == nil:
		n.addAt(NetworkOfAgent, config, "%s", reason.Message(n.blocked))
	case n.blocked != nil:
		n.addBlocked(config, err)
	case err != nil:
		n.add(NetworkOnNodes, o.path.Child("spec"), n.doc.at(keyNode(o.node, "spec")), `nodes read it from their configuration file with "name": %q`, nad.Name)
	}
	if n.poolless != "" {
		n.addAt(NetworkWithoutPool, config, "plugin %s needs a device", n.poolless)
	}
	if i := strings.Index(config.str(), multusFile); i >= 0 {
		n.add(NetworkUsesMultus, config.path, n.doc.within(config.node, i), "it names %s", multusFile)
	}
	n.owned(NetworkOwned)
}

// checkKeys reports a key that the network has twice. pool is the path at which the object names its pool.
func (n *inputNetwork) checkKeys(pool Path) {
	annotations := pool[:len(pool)-1]
	n.checkTwice(append(n.object.namePaths(), n.object.path.Child("spec", "config"), pool,
		annotations.Child(attachment.NodeSelectorAnnotation), annotations.Child(attachment.DeviceFromAnnotation))...)
	if n.has(NotEditable) {
		n.blocked = reason.Errorf(reason.NetworkInvalid, "network %s has a key twice", n.ref)
	}
}

// addBlocked reports why the configuration of the network cannot be used.
func (n *inputNetwork) addBlocked(config spot, err error) {
	code, at := NetworkNotJSON, n.doc.at(config.node)
	if reason.Of(err) == reason.LimitExceeded {
		code = LimitExceeded
	} else {
		at = n.doc.within(config.node, syntaxOffset(n.config))
	}
	n.add(code, config.path, at, "%s", bare(err, "spec.config: "))
}

// multusFile is the kubeconfig that Multus' installers write for Multus itself.
const multusFile = "multus.kubeconfig"

// index records the network in the environment. pool is the path at which the object names the
// pool.
func (n *inputNetwork) index(e *environment, pool Path) {
	e.networks[n.ref] = n.network
	if n.resourceName == "" {
		return
	}
	e.pools[n.resourceName] = true
	if !e.options.Pools {
		n.add(PoolsNotServed, pool, n.place(pool), "it draws from pool %s", n.resourceName)
		return
	}
	n.checkServer(e, pool)
}

// checkName reports a network with a name that the API server refuses, for itself or for its class.
func (n *inputNetwork) checkName() {
	n.reporter.checkName()
	if n.has(NameInvalid) {
		n.blocked = reason.Errorf(reason.NetworkInvalid, "the name of network %s is invalid", n.ref)
	} else if n.object.get("metadata", "name").str() == "" {
		n.add(NameInvalid, n.object.path.Child("metadata"), n.doc.at(n.object.node), "it has no metadata.name by which pods could name it")
		n.blocked = reason.Errorf(reason.NetworkInvalid, "a network has no name")
	}
}

// checkAltered reports a network whose name or namespace a kustomization changes.
func (n *inputNetwork) checkAltered(e *environment) {
	e.units.checkAltered(n.reporter, e.options.Namespace)
	if n.has(KustomizationAlters) && n.blocked == nil {
		n.blocked = reason.Errorf(reason.NetworkInvalid, "a kustomization changes the name or namespace of network %s", n.ref)
	}
}

// checkClass reports an existing DeviceClass of the network that selects other devices, or attaches
// another network, than the definition asks for. It accepts a class for the long ID, because the input does not
// tell whether an earlier network has the same ID. It is called when all objects of the input are recorded.
func (n *inputNetwork) checkClass(e *environment) {
	if n.blocked != nil || !e.servable(n.network) {
		return
	}
	want := DeviceClass(n.ref, n.resourceName)
	have := e.classSpecs[want.Name]
	if have == nil || sameClass(have.Spec, want.Spec) ||
		sameClass(have.Spec, deviceClass(n.ref, attachment.LongNetworkIDOf(n.ref), n.resourceName).Spec) {
		return
	}
	n.addAt(ClassChanged, n.object.spot, "DeviceClass %s does not select %s", want.Name, devicesOf(n.resourceName))
	n.blocked = fmt.Errorf("DeviceClass %s does not fit network %s", want.Name, n.ref)
	e.networks[n.ref] = n.network
}

// devicesOf names the devices of which a network takes one.
func devicesOf(pool string) string {
	if pool == "" {
		return "the devices that list the network"
	}
	return "the devices of pool " + pool
}

// verdict returns the result for the network, after all objects of the input are recorded. A
// network without a name has no class.
func (n *inputNetwork) verdict(e *environment) NetworkVerdict {
	v := NetworkVerdict{
		Object: n.object.ref, Position: n.doc.at(n.object.node), Readiness: readiness(n.findings),
		Plugins: n.plugins, IPAM: n.ipam, Pool: n.resourceName, Codes: codesOf(n.findings),
	}
	if n.ref.Name != "" && e.servable(n.network) {
		v.Class = attachment.DeviceClassName(n.ref)
	} else {
		v.Readiness = Stays
	}
	return v
}
