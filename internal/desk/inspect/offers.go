package inspect

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Offers lists the nodes that can attach networks, by their slices. A node may be listed
// several times.
type Offers struct {
	// Networks has the nodes that offer each network.
	Networks map[attachment.NetworkRef][]string
	// Pools has the nodes with devices of each resource pool, by its name.
	Pools map[string][]string
}

// offering returns the nodes with devices for a network: those that list it, and those of the resource pool
// that it uses, or none for "". If another driver has the pool's devices, nodes list the network itself. It
// returns each node once, sorted.
func (x *index) offering(network attachment.NetworkRef, pool string) []string {
	nodes := slices.Clone(x.offers[x.idOf(network)])
	if pool != "" {
		nodes = append(nodes, x.pools[pool]...)
	}
	slices.Sort(nodes)
	return slices.Compact(nodes)
}

// OffersOf reads the offers of an input's networks from its slices.
func OffersOf(in Input) Offers {
	x := newIndex(in)
	out := Offers{Networks: map[attachment.NetworkRef][]string{}, Pools: x.pools}
	unknown := func(node string) bool { return node == "" }
	for ref := range x.networks {
		if nodes := slices.DeleteFunc(slices.Clone(x.offers[x.idOf(ref)]), unknown); len(nodes) > 0 {
			out.Networks[ref] = nodes
		}
	}
	for pool, nodes := range out.Pools {
		out.Pools[pool] = slices.DeleteFunc(nodes, unknown)
	}
	return out
}
