package inspect

import (
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Offers say which nodes can attach what, by their slices. A node may be there
// several times.
type Offers struct {
	// Networks are the nodes that offer a network.
	Networks map[attachment.NetworkRef][]string
	// Pools are the nodes with devices of a resource pool, by its name.
	Pools map[string][]string
}

// OffersOf reads them from the slices of an input.
func OffersOf(in Input) Offers {
	x := newIndex(in)
	out := Offers{Networks: x.offers, Pools: x.pools}
	unknown := func(node string) bool { return node == "" }
	for ref, nodes := range out.Networks {
		out.Networks[ref] = slices.DeleteFunc(nodes, unknown)
	}
	for pool, nodes := range out.Pools {
		out.Pools[pool] = slices.DeleteFunc(nodes, unknown)
	}
	return out
}
