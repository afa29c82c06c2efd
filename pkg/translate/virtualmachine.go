package translate

import (
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// The label of the pods of virtual machines. KubeVirt writes their annotation and relies on what
// Multus reports about it.
const launcherLabel, launcher = "kubevirt.io", "virt-launcher"

// isVirtualMachine reports whether an object is a virtual machine of KubeVirt, or has one.
func isVirtualMachine(o object) bool {
	return (o.group == "kubevirt.io" || o.group == "pool.kubevirt.io") && strings.HasPrefix(o.ref.Kind, "VirtualMachine")
}

// checkMachine reports networks of a virtual machine that do not exist, or are not in the input. at is the
// node by which the machine requests the first one.
func (w *work) checkMachine(env *environment, at *yaml.Node) {
	for _, name := range sortedSet(w.networks) {
		namespace, name, _ := strings.Cut(name, "/")
		ref := attachment.NetworkRef{Namespace: namespace, Name: name}
		if _, found := env.network(ref); found {
			continue
		}
		code, what := NetworkNotInInput, "is not in the input"
		if env.options.AllNetworks {
			code, what = NetworkMissing, "does not exist"
		}
		w.reporter.add(code, w.object.path.Child("spec"), w.object.doc.at(at), "%s %s%s", ref, what, env.namesakes(ref))
	}
}

// multusOf returns the networks of Multus that a virtual machine's spec names, and the first node
// by which the machine requests one, nil if it requests none.
func multusOf(o object) (first *yaml.Node, networks []string) {
	found := func(n *yaml.Node) {
		if first == nil {
			first = n
		}
	}
	for _, path := range [][]string{{"spec", "template"}, nil, {"spec", "virtualMachineTemplate", "spec", "template"}} {
		n := get(o.node, path...)
		for _, name := range []string{attachment.NetworksAnnotation, attachment.DefaultNetworkAnnotation} {
			if a := annotation(n, name); a != nil && len(path) > 0 {
				found(a)
			}
		}
		for _, network := range items(get(n, "spec", "networks")) {
			if m := get(network, "multus"); m != nil {
				found(m)
				name := str(get(m, "networkName"))
				if !strings.Contains(name, "/") {
					name = o.ref.Namespace + "/" + name
				}
				networks = append(networks, name)
			}
		}
	}
	return first, networks
}
