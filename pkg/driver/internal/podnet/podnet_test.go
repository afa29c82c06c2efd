package podnet

import (
	"slices"
	"testing"
)

// TestInRuntimeOrder checks a cluster whose first family is IPv6: the kernel lists IPv4
// first.
func TestInRuntimeOrder(t *testing.T) {
	for _, tt := range []struct{ ips, runtime, want []string }{
		{[]string{"10.0.0.5", "fd00::5"}, []string{"fd00::5", "10.0.0.5"}, []string{"fd00::5", "10.0.0.5"}},
		{[]string{"10.0.0.9", "10.0.0.5", "fd00::5"}, []string{"10.0.0.5"}, []string{"10.0.0.5", "10.0.0.9", "fd00::5"}},
		{[]string{"10.0.0.5", "fd00::5"}, nil, []string{"10.0.0.5", "fd00::5"}},
	} {
		inRuntimeOrder(tt.ips, tt.runtime)
		if !slices.Equal(tt.ips, tt.want) {
			t.Errorf("order %v, want %v", tt.ips, tt.want)
		}
	}
}
