package stats

import (
	"math"
	"testing"
)

func TestPercentile(t *testing.T) {
	s := Sample{9, 1, 2, 3, 4, 5, 6, 7, 8, 10}
	for p, want := range map[float64]float64{0: 1, 10: 1, 50: 5, 90: 9, 91: 10, 100: 10} {
		if got := s.Percentile(p); got != want {
			t.Errorf("percentile %v is %v, want %v", p, got, want)
		}
	}
	if s[0] != 9 {
		t.Error("the sample was sorted in place")
	}
	if !math.IsNaN(Sample(nil).Median()) {
		t.Error("nothing has a median")
	}
}
