package bench

import (
	"maps"
	"math"
	"slices"
)

// histogram is a Prometheus histogram: the count of observations up to each bound.
type histogram map[float64]float64

// since returns the observations that were added after an earlier reading.
func (h histogram) since(before histogram) histogram {
	out := histogram{}
	for bound, n := range h {
		out[bound] = n - before[bound]
	}
	return out
}

// all returns the number of observations.
func (h histogram) all() float64 { return h[math.Inf(1)] }

// bound returns the smallest bound that this share of the observations does not exceed.
func (h histogram) bound(share float64) float64 {
	for _, bound := range slices.Sorted(maps.Keys(h)) {
		if h[bound] >= share*h.all() {
			return bound
		}
	}
	return math.Inf(1)
}
