package translate

import (
	"errors"
	"fmt"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// network is what the rules need to know of a NetworkAttachmentDefinition.
type network struct {
	resourceName string
	// nodeSelector is its annotation.
	nodeSelector string
	// plugins are the types of the chain; ipam is that of the first that has one.
	plugins []string
	ipam    string
	// binaries and masters are what a node must have for it, each once.
	binaries, masters []string
	// poolless is the plugin that needs a device, where no pool gives it one.
	poolless string
	// blocked is set where the configuration is not usable.
	blocked error
}

const nadGroup, nadKind = "k8s.cni.cncf.io", "NetworkAttachmentDefinition"

func isNetwork(o object) bool { return o.group == nadGroup && o.ref.Kind == nadKind }

// refOf is the network that an object is.
func refOf(o ObjectRef) attachment.NetworkRef {
	return attachment.NetworkRef{Namespace: o.Namespace, Name: o.Name}
}

// networkOf judges a definition. Its configuration may be a file of the nodes,
// which is told by the error and blocks nothing.
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
		n.blocked = fmt.Errorf("network %s is attached by %s, not by a CNI plugin", parsed.Ref, agent)
	}
	if n.resourceName == "" {
		n.poolless = poolless(parsed)
	}
	for _, p := range parsed.Plugins {
		n.plugins = append(n.plugins, p.Type)
		if n.ipam == "" {
			n.ipam = p.IPAM
		}
		n.binaries = append(n.binaries, p.Type, p.IPAM)
		n.masters = append(n.masters, p.Master)
	}
	n.binaries, n.masters = filled(n.binaries), filled(n.masters)
	return n, err
}

// judged is an object of the input that is a network, or that an operator makes
// one of.
type judged struct {
	*reporter
	network
	ref attachment.NetworkRef
	// is is unset where the input has the network by another object.
	is bool
	// definition is what an operator would make of the object.
	definition *nadv1.NetworkAttachmentDefinition
}

// read judges a NetworkAttachmentDefinition and takes note of its
// configuration. Of several with one name the last counts, as it does when they
// are applied.
func (n *judged) read(e *environment, configs map[attachment.NetworkRef]string) {
	n.is = true
	config := str(get(n.object.node, "spec", "config"))
	if earlier, twice := configs[n.ref]; twice && len(differences(earlier, config)) > 0 {
		n.add(NetworkTwice, n.object.path, n.doc.at(n.object.node), "an earlier one has another %s in spec.config", strings.Join(differences(earlier, config), ", "))
	}
	configs[n.ref] = config
	pool := n.object.path.Child("metadata", "annotations", attachment.ResourceNameAnnotation)
	n.resourceName = str(annotation(n.object.node, attachment.ResourceNameAnnotation))
	n.readConfig()
	n.seekOnNodes(e, n.object.path.Child("spec", "config"))
	n.know(e, pool)
}

func (n *judged) readConfig() {
	o := n.object
	config := get(o.node, "spec", "config")
	at := o.path.Child("spec", "config")
	if config != nil && len(config.Content) > 0 {
		n.blocked = errors.New("spec.config: is no string")
		n.add(NetworkNotJSON, at, n.doc.at(config), "is no string: it must be one that contains JSON")
		return
	}
	nad := &nadv1.NetworkAttachmentDefinition{Spec: nadv1.NetworkAttachmentDefinitionSpec{Config: str(config)}}
	nad.Namespace, nad.Name = n.ref.Namespace, n.ref.Name
	nad.Annotations = map[string]string{
		attachment.ResourceNameAnnotation: n.resourceName,
		attachment.NodeSelectorAnnotation: str(annotation(o.node, attachment.NodeSelectorAnnotation)),
	}
	var err error
	n.network, err = networkOf(nad)
	switch {
	case n.blocked != nil && err == nil:
		n.add(NetworkOfAgent, at, n.doc.at(config), "%v", n.blocked)
	case n.blocked != nil:
		n.add(NetworkNotJSON, at, n.doc.within(config, syntaxOffset(nad.Spec.Config)), "%s", bare(err, "spec.config: "))
	case err != nil:
		n.add(NetworkOnNodes, o.path.Child("spec"), n.doc.at(keyNode(o.node, "spec")), "it is the file of the node whose name is %q", nad.Name)
	}
	if n.poolless != "" {
		n.add(NetworkWithoutPool, at, n.doc.at(config), "plugin %s needs one", n.poolless)
	}
	if i := strings.Index(str(config), multusFile); i >= 0 {
		n.add(NetworkUsesMultus, at, n.doc.within(config, i), "it names %s", multusFile)
	}
	n.owned(NetworkOwned)
}

// multusFile is what Multus' installers write for Multus itself.
const multusFile = "multus.kubeconfig"

// know has the environment take note of a network; pool is where the object
// names what it draws from.
func (n *judged) know(e *environment, pool Path) {
	e.networks[n.ref] = n.network
	if n.resourceName == "" {
		return
	}
	e.pools[n.resourceName] = true
	if !e.options.Pools {
		n.add(PoolsNotServed, pool, n.place(pool), "the pool is %s", n.resourceName)
		return
	}
	n.checkServer(e, pool)
}

// verdict is drawn up when all is known. A network without a name can have no
// class.
func (n *judged) verdict(e *environment) NetworkVerdict {
	v := NetworkVerdict{
		Object: n.object.ref, Position: n.doc.at(n.object.node), Readiness: readiness(n.findings),
		Plugins: n.plugins, IPAM: n.ipam, Pool: n.resourceName, Codes: codesOf(n.findings),
	}
	if makesNetwork(n.object) {
		from := n.object.ref
		v.RenderedFrom = &from
		v.Object = ObjectRef{APIVersion: nadv1.SchemeGroupVersion.String(), Kind: nadKind, Namespace: n.ref.Namespace, Name: n.ref.Name}
	}
	if n.ref.Name != "" && e.servable(n.network) {
		v.Class = attachment.DeviceClassName(n.ref)
	} else {
		v.Readiness = Stays
	}
	return v
}
