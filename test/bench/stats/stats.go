// Package stats says little about many measurements.
package stats

import (
	"math"
	"slices"
	"time"
)

// Sample is a set of measurements of one thing.
type Sample []float64

// Add adds a duration, in milliseconds.
func (s *Sample) Add(d time.Duration) { *s = append(*s, Milliseconds(d)) }

// Median is the middle measurement, which a few bad moments do not move.
func (s Sample) Median() float64 { return s.Percentile(50) }

// Percentile is the smallest measurement that p percent of all do not exceed.
func (s Sample) Percentile(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Milliseconds is the duration with its fraction.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
