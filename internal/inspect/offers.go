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

// OffersOf reads the offers of an input's networks from its slices.
func OffersOf(in Input) Offers {
	x := newIndex(in)
	out := Offers{Networks: map[attachment.NetworkRef][]string{}, Pools: x.pools}
	unknown := func(node string) bool { return node == "" }
	for ref := range x.networks {
		if nodes := slices.DeleteFunc(slices.Clone(x.offers[attachment.NetworkIDOf(ref)]), unknown); len(nodes) > 0 {
			out.Networks[ref] = nodes
		}
	}
	for pool, nodes := range out.Pools {
		out.Pools[pool] = slices.DeleteFunc(nodes, unknown)
	}
	return out
}
