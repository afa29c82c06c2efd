package admission

import (
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// PoolFacts says who serves a resource pool: see Cluster.
type PoolFacts = translate.PoolFacts

// PoolOfNadra returns the facts of a pool of which nothing else is known: nadra
// serves it.
func PoolOfNadra() PoolFacts { return PoolFacts{Server: translate.PoolOfNadra} }

// PoolPublishedBy returns the facts of a pool by the drivers that publish devices
// of it, by pool.
func PoolPublishedBy(pool string, drivers map[string][]string) PoolFacts {
	return translate.AllocatedBy(pool, v1alpha1.DriverName, drivers, nil)
}

// IsMadeTemplate reports whether a ResourceClaimTemplate's name is one that
// conversion gives.
func IsMadeTemplate(name string) bool { return translate.MadeTemplate(name) }
