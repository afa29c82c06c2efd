package v1alpha1

import (
	"encoding/json"
	"fmt"
	"testing"
)

// TestOverlayCost checks that the work of Overlay grows with the configs, and not with their square.
func TestOverlayCost(t *testing.T) {
	allocations := func(n int) float64 {
		configs := make([]AttachmentConfig, n)
		for i := range configs {
			configs[i].CNIArgs = map[string]json.RawMessage{}
			for j := range 50 {
				configs[i].CNIArgs[fmt.Sprint(i, "-", j)] = json.RawMessage("1")
			}
		}
		return testing.AllocsPerRun(3, func() { Overlay(configs...) })
	}
	if few, many := allocations(8), allocations(64); many > 12*few {
		t.Errorf("8 configs take %v allocations, and 64 configs %v", few, many)
	}
}
