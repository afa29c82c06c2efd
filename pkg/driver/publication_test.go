package driver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"

	"github.com/nadra-dev/nadra/pkg/driver/internal/drivertest"
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

func handed(t *testing.T, p *publication, pool string, names ...string) {
	t.Helper()
	send := p.noting(func(context.Context, resourceslice.DriverResources) error { return nil })
	r := resourceslice.DriverResources{Pools: map[string]resourceslice.Pool{pool: {Slices: []resourceslice.Slice{{Devices: slicesOf(pool, names)[0].Spec.Devices}}}}}
	if err := send(t.Context(), r); err != nil {
		t.Fatal(err)
	}
}

// Since when slices are missing, and why, in the words of whoever knows best.
func TestPublicationTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p publication
		begun := time.Now()
		is := func(what string, wantSince time.Duration, wantWhy string) {
			t.Helper()
			since, why := p.look(begun)
			switch {
			case wantWhy == "" && why == nil:
			case why == nil || why.Error() != wantWhy || since.Sub(begun) != wantSince:
				t.Errorf("%s: since %s: %v", what, since.Sub(begun), why)
			}
		}
		time.Sleep(time.Second)
		is("at first", 0, errNotPublished.Error())
		p.of(partNetworks)(errors.New("no sysfs"))
		is("a first look that fails", 0, "no sysfs")
		p.of(partNetworks)(nil)
		is("published", 0, "")
		time.Sleep(time.Second)
		p.of(partHardware)(errors.New("no PCI"))
		time.Sleep(time.Second)
		p.of(partHardware)(errors.New("still no PCI"))
		is("hardware", 2*time.Second, "still no PCI")
		p.doubt(errors.New("forbidden"))
		is("a write fails, too", 2*time.Second, "still no PCI")
		p.of(partHardware)(nil)
		is("the write", 3*time.Second, "forbidden")
	})
}

// countingAPI counts how often it is asked for slices.
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

// A write that failed is one until the API server has what is wanted.
func TestDoubtsAreSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var p publication
		p.of(partNetworks)(nil)
		handed(t, &p, "n/networks", "a", "b")
		api := &countingAPI{there: slicesOf("n/networks", []string{"a"}), err: errors.New("timed out")}
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- p.run(ctx, api.list) }()
		time.Sleep(time.Hour)
		drivertest.Same(t, "asked without a doubt", 0, api.times())
		p.doubt(errors.New("forbidden"))
		time.Sleep(verifyMin + time.Millisecond)
		drivertest.Same(t, "asked after a pause", 1, api.times())
		api.answers(slicesOf("n/networks", []string{"a"}))
		time.Sleep(time.Hour)
		if _, why := p.look(time.Now()); why == nil || why.Error() != "forbidden" {
			t.Errorf("with a device missing: %v", why)
		}
		asked := api.times()
		drivertest.Same(t, "asked meanwhile", true, asked > 10 && asked < 50)
		api.answers(slicesOf("n/networks", []string{"b"}, []string{"a"})) // in other slices
		time.Sleep(verifyMax)
		if _, why := p.look(time.Now()); why != nil {
			t.Errorf("with all devices: %v", why)
		}
		before := api.times()
		time.Sleep(time.Hour)
		drivertest.Same(t, "asked afterwards", before, api.times())
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// What the API server has beside what is wanted is as wrong as what it lacks.
func TestComparedSlices(t *testing.T) {
	var p publication
	handed(t, &p, "n/networks", "a", "b")
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
