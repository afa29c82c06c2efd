package slicewriter

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/test/drivertest"
)

func slicesOf(pool string, slices ...[]string) []resourceapi.ResourceSlice {
	var out []resourceapi.ResourceSlice
	for _, names := range slices {
		var s resourceapi.ResourceSlice
		s.Spec.Pool.Name = pool
		for _, n := range names {
			s.Spec.Devices = append(s.Spec.Devices, resourceapi.Device{Name: n})
		}
		out = append(out, s)
	}
	return out
}

// handed publishes a pool with devices of these names.
func handed(t *testing.T, tracker *Tracker, pool string, names ...string) {
	t.Helper()
	w := New(func(context.Context, resourceslice.DriverResources) error { return nil }, tracker)
	pools := map[string]resourceslice.Pool{pool: {Slices: []resourceslice.Slice{{Devices: slicesOf(pool, names)[0].Spec.Devices}}}}
	if err := w.Part(Networks)(t.Context(), func() map[string]resourceslice.Pool { return pools }); err != nil {
		t.Fatal(err)
	}
}

// TestFailure checks since when slices are missing, and that the most specific error explains it.
func TestFailure(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewTracker(metrics.NewNode())
		begun := time.Now()
		is := func(what string, wantSince time.Duration, wantWhy string) {
			t.Helper()
			f := p.Failure(begun)
			switch {
			case wantWhy == "" && f.Err == nil:
			case f.Err == nil || f.Err.Error() != wantWhy || f.Since.Sub(begun) != wantSince:
				t.Errorf("%s: since %s: %v", what, f.Since.Sub(begun), f.Err)
			}
		}
		time.Sleep(time.Second)
		is("at first", 0, ErrNotPublished.Error())
		p.Outcome(Networks)(errors.New("no sysfs"))
		is("a first look that fails", 0, "no sysfs")
		p.Outcome(Networks)(nil)
		is("published", 0, "")
		time.Sleep(time.Second)
		p.Outcome(Hardware)(errors.New("no PCI"))
		time.Sleep(time.Second)
		p.Outcome(Hardware)(errors.New("still no PCI"))
		is("hardware", 2*time.Second, "still no PCI")
		p.WriteFailed(errors.New("forbidden"))
		is("a write fails, too", 2*time.Second, "still no PCI")
		p.Outcome(Hardware)(nil)
		is("the write", 3*time.Second, "forbidden")
	})
}

// countingAPI counts the requests to list slices.
type countingAPI struct {
	mu    sync.Mutex
	asked int
	there []resourceapi.ResourceSlice
	err   error
}

func (a *countingAPI) list(context.Context) ([]resourceapi.ResourceSlice, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.asked++
	return a.there, a.err
}

func (a *countingAPI) times() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

func (a *countingAPI) answers(there []resourceapi.ResourceSlice) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.there, a.err = there, nil
}

// TestFailedWrite checks that a failed write is a failure until the API server has the wanted slices.
func TestFailedWrite(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := NewTracker(metrics.NewNode())
		p.Outcome(Networks)(nil)
		handed(t, p, "n/networks", "a", "b")
		api := &countingAPI{there: slicesOf("n/networks", []string{"a"}), err: errors.New("timed out")}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.Run(ctx, api.list) }()
		time.Sleep(time.Hour)
		drivertest.Same(t, "lists without a failed write", 0, api.times())
		p.WriteFailed(errors.New("forbidden"))
		time.Sleep(verifyMin + time.Millisecond)
		drivertest.Same(t, "lists after a pause", 1, api.times())
		api.answers(slicesOf("n/networks", []string{"a"}))
		time.Sleep(time.Hour)
		if f := p.Failure(time.Now()); f.Err == nil || f.Err.Error() != "forbidden" {
			t.Errorf("with a device missing: %v", f.Err)
		}
		asked := api.times()
		drivertest.Same(t, "lists meanwhile", true, asked > 10 && asked < 50)
		api.answers(slicesOf("n/networks", []string{"b"}, []string{"a"})) // in other slices
		time.Sleep(verifyMax)
		if f := p.Failure(time.Now()); f.Err != nil {
			t.Errorf("with all devices: %v", f.Err)
		}
		before := api.times()
		time.Sleep(time.Hour)
		drivertest.Same(t, "lists afterwards", before, api.times())
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// TestCompare checks that slices which are not wanted count as a failure, too.
func TestCompare(t *testing.T) {
	p := NewTracker(metrics.NewNode())
	handed(t, p, "n/networks", "a", "b")
	for name, tt := range map[string]struct {
		there []resourceapi.ResourceSlice
		same  bool
	}{
		"the same":       {slicesOf("n/networks", []string{"a", "b"}), true},
		"another device": {slicesOf("n/networks", []string{"a", "c"}), false},
		"one twice":      {slicesOf("n/networks", []string{"a", "b"}, []string{"a"}), false},
		"another pool":   {append(slicesOf("n/networks", []string{"a", "b"}), slicesOf("n/functions", nil)...), false},
		"nothing":        {nil, false},
	} {
		if err := p.compare(tt.there); (err == nil) != tt.same {
			t.Errorf("%s: %v", name, err)
		}
	}
}
