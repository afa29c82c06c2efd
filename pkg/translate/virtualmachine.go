package translate

import (
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// isVirtualMachine reports whether an object is a virtual machine of KubeVirt, or makes some.
func isVirtualMachine(o object) bool {
	return (o.group == "kubevirt.io" || o.group == "pool.kubevirt.io") && strings.HasPrefix(o.ref.Kind, "VirtualMachine")
}

// machinePart is a value of a virtual machine because of which its launcher pods ask for networks.
type machinePart struct {
	spot
	// network is set for a network of Multus.
	network attachment.NetworkRef
	// primary is the node by which the network replaces the pod's default network, or nil.
	primary *yaml.Node
	// binding is the plugin of KubeVirt's configuration that binds an interface, or "".
	binding string
}

// machineParts returns the parts of a virtual machine that ask for networks, in order.
func machineParts(o object) []machinePart {
	var out []machinePart
	for _, at := range [][]string{{"spec", "template"}, nil, {"spec", "virtualMachineTemplate", "spec", "template"}} {
		template := o.get(at...)
		if len(at) > 0 || o.ref.Kind == "VirtualMachineInstance" {
			for _, name := range []string{attachment.NetworksAnnotation, attachment.DefaultNetworkAnnotation} {
				if a := template.annotation(name); a.node != nil {
					part := machinePart{spot: a}
					if name == attachment.DefaultNetworkAnnotation {
						part.primary = a.node
					}
					out = append(out, part)
				}
			}
		}
		for _, network := range template.get("spec", "networks").items() {
			if m := network.get("multus"); m.node != nil {
				out = append(out, networkPart(o, m))
			}
		}
		for _, item := range template.get("spec", "domain", "devices", "interfaces").items() {
			if b := item.get("binding", "name"); b.node != nil {
				out = append(out, machinePart{spot: b, binding: b.str()})
			}
		}
	}
	return out
}

// networkPart returns the part of a virtual machine that names a network of Multus.
func networkPart(o object, m spot) machinePart {
	part := machinePart{spot: m, network: attachment.NetworkRef{Namespace: o.ref.Namespace, Name: m.get("networkName").str()}}
	if namespace, name, found := strings.Cut(part.network.Name, "/"); found {
		part.network = attachment.NetworkRef{Namespace: namespace, Name: name}
	}
	if d := m.get("default"); d.str() == "true" {
		part.primary, part.path = d.node, d.path
	}
	return part
}

// planMachine reports whether a virtual machine uses networks of Multus, and which of them nadra cannot
// attach. KubeVirt writes the annotation of the launcher pods, and the webhook converts these pods, so that
// nothing in the machine's manifest changes.
func (w *work) planMachine(env *environment) bool {
	o, r := w.object, w.reporter
	parts := machineParts(o)
	if len(parts) == 0 {
		return false
	}
	w.attaches = true
	if env.options.leavesMachines() {
		r.add(VirtualMachines, o.path.Child("spec"), o.doc.at(parts[0].node), "KubeVirt and Multus keep its networks")
	}
	seen := map[attachment.NetworkRef]bool{}
	for _, p := range parts {
		w.judged[p.node] = true
		switch {
		case p.primary != nil:
			r.add(DefaultNetwork, p.path, o.doc.at(p.primary), "%s", primaryOf(p))
		case p.binding != "":
			r.addAt(BindingPlugin, p.spot, "plugin %s", p.binding)
		case p.network.Name != "" && !seen[p.network]:
			seen[p.network] = true
			w.networks = append(w.networks, p.network.String())
			w.checkMachineNetwork(env, p)
		}
	}
	slices.Sort(w.networks)
	if !r.blocks() {
		r.add(VirtualMachineServed, o.path.Child("spec"), o.doc.at(parts[0].node), "the webhook converts its launcher pods")
	}
	return true
}

// primaryOf says what a machine asks for in place of the default network.
func primaryOf(p machinePart) string {
	name := p.network.String()
	if p.network.Name == "" {
		name = str(p.primary)
	}
	return "it asks for " + name + " in place of the default network"
}

// checkMachineNetwork reports a network that nadra could not attach to the machine's launcher pods.
func (w *work) checkMachineNetwork(env *environment, p machinePart) {
	r := w.reporter
	n, found := env.network(p.network)
	code, message := env.obstacle(p.network, n, found)
	switch {
	case code != "":
		r.addAt(code, p.spot, "%s", message)
	case n.resourceName != "":
		if facts := env.poolFacts(n.resourceName); facts.Server == PoolOfNobody || facts.Server == PoolOfPlugin {
			r.addAt(PoolUnserved, p.spot, "%s: %s", p.network, facts.unserved(n.resourceName))
		}
	}
}
