//go:build e2e

package bench

import (
	"maps"
	"math"
	"slices"
)

// histogram is one of Prometheus': how many were no more than each bound.
type histogram map[float64]float64

// since is what came to it.
func (h histogram) since(before histogram) histogram {
	out := histogram{}
	for bound, n := range h {
		out[bound] = n - before[bound]
	}
	return out
}

// all is how many there are.
func (h histogram) all() float64 { return h[math.Inf(1)] }

// bound is the least of its bounds that this share of all kept.
func (h histogram) bound(share float64) float64 {
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		if h[bound] >= share*h.all() {
			return bound
		}
	}
	return math.Inf(1)
}
