package publish

import (
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/equality"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// offer is all that the devices of one network are made from. It does not change. The
// devices themselves are made when there is something to publish: thousands of them are not
// kept here as well as in the slices' own cache.
type offer struct {
	*definition
	pci     pciAttributes
	options deviceOptions
}

// offers keeps the offers of each network.
type offers struct {
	known map[attachment.NetworkRef]knownOffer
}

// knownOffer is the latest offer of a network, and the first that had the same devices.
type knownOffer struct{ latest, first *offer }

// of returns the offers of networks, sorted by the names of their devices, so that the same
// input gives the same slices. Offers with the same devices are the very same pointer: by
// comparing pointers the publisher finds out whether there is something to publish.
func (o *offers) of(networks []*definition, links map[string]Link, options deviceOptions) []*offer {
	known := make(map[attachment.NetworkRef]knownOffer, len(networks))
	out := make([]*offer, 0, len(networks))
	for _, n := range networks {
		ref := n.network.Ref
		k, pci := o.known[ref], pciOf(n.network, links)
		if l := k.latest; l == nil || l.definition != n || l.options != options || !reflect.DeepEqual(l.pci, pci) {
			k.latest = &offer{definition: n, pci: pci, options: options}
			if k.first == nil || !equality.Semantic.DeepEqual(k.first.devices(), k.latest.devices()) {
				k.first = k.latest
			}
		}
		known[ref] = k
		out = append(out, k.first)
	}
	o.known = known
	slices.SortFunc(out, func(a, b *offer) int { return strings.Compare(a.device, b.device) })
	return out
}
