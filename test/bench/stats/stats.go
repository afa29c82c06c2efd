// Package stats computes percentiles of measurements. All of it is in stats.go.
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

// Median returns the middle measurement, which outliers do not change.
func (s Sample) Median() float64 { return s.Percentile(50) }

// Percentile returns the smallest measurement that p percent of all do not exceed.
func (s Sample) Percentile(p float64) float64 {
	if len(s) == 0 {
		return math.NaN()
	}
	sorted := slices.Sorted(slices.Values(s))
	rank := int(math.Ceil(p / 100 * float64(len(sorted))))
	return sorted[max(rank, 1)-1]
}

// Milliseconds returns a duration in milliseconds, with its fraction.
func Milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
