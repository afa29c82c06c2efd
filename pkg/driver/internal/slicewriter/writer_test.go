package slicewriter

import (
	"context"
	"slices"
	"testing"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// TestPartsArePublishedTogether checks that no part's pools are left out, because the library
// deletes the slices of pools that it is not given, and that pools without slices are.
func TestPartsArePublishedTogether(t *testing.T) {
	var sent []string
	w := New(func(_ context.Context, r resourceslice.DriverResources) error {
		sent = nil
		for name := range r.Pools {
			sent = append(sent, name)
		}
		slices.Sort(sent)
		return nil
	}, NewTracker(metrics.NewNode()))
	pools := func(names ...string) PoolMaker {
		return func() map[string]resourceslice.Pool {
			out := map[string]resourceslice.Pool{}
			for _, n := range names {
				out[n] = resourceslice.Pool{Slices: []resourceslice.Slice{{}, {Devices: []resourceapi.Device{{Name: "one"}}}}}
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
	withheld := func() map[string]resourceslice.Pool {
		return map[string]resourceslice.Pool{"pf2": {Slices: []resourceslice.Slice{{}}}, "pf3": {}} // the first is announced
	}
	if err := w.Part(Hardware)(t.Context(), withheld); err != nil {
		t.Fatal(err)
	}
	drivertest.Same(t, "without slices", []string{"nads", "pf2"}, sent)
}
