package inspect

import (
	"cmp"
	"errors"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Network is a NetworkAttachmentDefinition and the nodes that offer it.
type Network struct {
	metav1.TypeMeta `json:",inline"`
	Namespace       string `json:"namespace"`
	Name            string `json:"name"`
	// Plugins are the types of the chain, IPAM the first IPAM plugin of the chain.
	Plugins []string `json:"plugins,omitempty"`
	IPAM    string   `json:"ipam,omitempty"`
	// Pool is the resource pool from which the network draws.
	Pool string `json:"pool,omitempty"`
	// ID is the network's ID in the attributes of devices, Class the name of its DeviceClass.
	ID    string `json:"id"`
	Class string `json:"class"`
	// ClassMissing is true if the class does not exist.
	ClassMissing bool `json:"classMissing,omitempty"`
	// Nodes are the nodes on which a device lists the network, or has a device of its pool.
	Nodes []string `json:"nodes,omitempty"`
	// Problem is why the definition cannot be read, why nodes have withdrawn the network, or how to find out why no node
	// offers it.
	Problem string `json:"problem,omitempty"`
}

// OfferedNetworks returns the networks of an input with the nodes that offer them, sorted by namespace and name.
func OfferedNetworks(in Input) []Network {
	x := newIndex(in)
	var out []Network
	for ref, nad := range x.networks {
		n := Network{
			TypeMeta: typeMeta("Network"), Namespace: ref.Namespace, Name: ref.Name,
			ID: string(x.idOf(ref)), Class: attachment.DeviceClassName(ref), Pool: attachment.PoolOf(nad.Annotations),
		}
		parsed, err := attachment.ParseNetwork(nad)
		if err != nil && !errors.Is(err, attachment.ErrNoConfig) {
			n.Problem = err.Error()
		}
		plugins, ipams := parsed.Programs()
		n.Plugins, n.IPAM = plugins, cmp.Or(ipams...)
		n.ClassMissing = x.classes[n.Class] == nil && !x.unread[Classes]
		n.Nodes = x.offering(ref, n.Pool)
		n.Problem = cmp.Or(n.Problem, x.whyWithdrawn(ref, n))
		out = append(out, n)
	}
	slices.SortFunc(out, func(a, b Network) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out
}

// whyWithdrawn returns why nodes do not offer a network any more, by their events, or how to find out why none does.
func (x *index) whyWithdrawn(ref attachment.NetworkRef, n Network) string {
	why := x.unavailable(ref, n.Nodes)
	switch {
	case why != "", len(n.Nodes) > 0, x.unread[Slices]:
		return why
	case len(x.drivers) == 0:
		return "no node offers any network: with --owned-nodes=labelled, nodes need the label " + ownLabel + "; kubectl nadra doctor names what else is missing"
	}
	return "no node offers it: kubectl nadra doctor --probe names what each node lacks"
}

// NetworkList returns the type of a list of networks.
func NetworkList() metav1.TypeMeta { return typeMeta("NetworkList") }
