package admission

import (
	"maps"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// PoolFacts describes what serves a resource pool.
type PoolFacts = translate.PoolFacts

// PoolOfNadra returns the facts of a pool that nadra serves, which is also assumed while the facts
// are unknown.
func PoolOfNadra() PoolFacts { return PoolFacts{Server: translate.PoolOfNadra} }

// PoolOfDriver returns the facts of a pool that another DRA driver serves.
func PoolOfDriver() PoolFacts { return PoolFacts{Server: translate.PoolOfDriver} }

// PoolPublishedBy returns the facts of a pool. drivers has the drivers that publish devices, by pool.
func PoolPublishedBy(pool string, drivers map[string][]string) PoolFacts {
	return translate.AllocatedBy(pool, v1alpha1.DriverName, drivers, nil)
}

// ClusterRanges returns the ranges of texts by what has their addresses, without texts that are neither an address nor a
// range.
func ClusterRanges(texts map[string]string) []translate.ClusterRange {
	var out []translate.ClusterRange
	for _, of := range slices.Sorted(maps.Keys(texts)) {
		if r, found := translate.RangeOf(texts[of], of); found {
			out = append(out, r)
		}
	}
	return out
}

// IsMadeTemplate reports whether a ResourceClaimTemplate has the name of one that a conversion makes.
func IsMadeTemplate(name string) bool { return translate.MadeTemplate(name) }
