package slicewriter

import (
	"context"
	"slices"
	"testing"

	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
)

// TestPartsArePublishedTogether checks that no part's pools are left out: the library
// deletes the slices of pools that it is not given.
func TestPartsArePublishedTogether(t *testing.T) {
	var sent []string
	w := New(func(_ context.Context, r resourceslice.DriverResources) error {
		sent = nil
		for name := range r.Pools {
			sent = append(sent, name)
		}
		slices.Sort(sent)
		return nil
	}, NewTracker(nil))
	pools := func(names ...string) PoolMaker {
		return func() map[string]resourceslice.Pool {
			out := map[string]resourceslice.Pool{}
			for _, n := range names {
				out[n] = resourceslice.Pool{}
			}
			return out
		}
	}
	w.Put(Hardware, pools("pf"))
	if err := w.Part(Networks)(t.Context(), pools("nads")); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "first publication", []string{"nads", "pf"}, sent)
	if err := w.Part(Hardware)(t.Context(), pools("pf2", "pf3")); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "after the hardware changed", []string{"nads", "pf2", "pf3"}, sent)
}
