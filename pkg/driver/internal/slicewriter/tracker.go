package slicewriter

import (
	"context"
	"errors"
	"hash/fnv"
	"maps"
	"sync"
	"time"

	resourceapi "k8s.io/api/resource/v1"
	"k8s.io/dynamic-resource-allocation/resourceslice"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

const (
	// verifyMin and verifyMax limit the pause before the slices are listed again.
	verifyMin = 5 * time.Second
	verifyMax = 2 * time.Minute
	// writes is the part of the library, which writes in the background.
	writes = "writes"
)

// ErrNotPublished is the failure of a driver that has published nothing yet.
var ErrNotPublished = errors.New("nothing was published yet")

var errOtherSlices = errors.New("the API server has other slices")

// Tracker tracks whether the API server has the slices that this node wants. The library
// writes slices in the background and reports every failed write, but no successful one.
// So after a failed write the tracker lists the slices until they are complete. While
// nothing fails it sends no request.
type Tracker struct {
	metrics    *metrics.Node
	writeFails background.Trigger

	mu sync.Mutex
	// published is true once the networks were published, however many there are.
	published bool
	// failures has the latest failure of each part.
	failures map[string]Failure
	// wanted has the pools as they were handed to the library last.
	wanted map[string]poolSum
}

// Failure describes why slices are not published.
type Failure struct {
	Since time.Time
	Err   error // nil if all slices are published
}

// NewTracker returns a Tracker of a driver that has published nothing.
func NewTracker(m *metrics.Node) *Tracker {
	return &Tracker{metrics: m, writeFails: background.NewTrigger(), failures: map[string]Failure{}}
}

// poolSum identifies a pool by the names of its devices, without keeping them.
type poolSum struct {
	devices int
	names   uint64
}

// add adds devices. Their order, and the slice that they are in, make no difference.
func (s *poolSum) add(devices []resourceapi.Device) {
	s.devices += len(devices)
	for _, d := range devices {
		h := fnv.New64a()
		_, _ = h.Write([]byte(d.Name)) // never fails
		s.names += h.Sum64()
	}
}

// Outcome returns a function that records whether publishing a part has succeeded.
func (t *Tracker) Outcome(part string) func(error) {
	return func(err error) {
		t.mu.Lock()
		defer t.mu.Unlock()
		t.published = t.published || part == Networks && err == nil
		t.set(part, err)
	}
}

// set records the state of a part. The caller holds mu.
func (t *Tracker) set(part string, err error) {
	if err == nil {
		delete(t.failures, part)
		return
	}
	t.metrics.PublishFailed()
	f, known := t.failures[part]
	if !known {
		f.Since = time.Now()
	}
	f.Err = err
	t.failures[part] = f
}

// setWanted records the pools that are handed to the library.
func (t *Tracker) setWanted(pools map[string]resourceslice.Pool) {
	wanted := make(map[string]poolSum, len(pools))
	for name, pool := range pools {
		var sum poolSum
		for _, s := range pool.Slices {
			sum.add(s.Devices)
		}
		wanted[name] = sum
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	t.wanted = wanted
}

// WriteFailed records a failed write of the library.
func (t *Tracker) WriteFailed(err error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set(writes, err)
	t.writeFails.Set()
}

// Run lists the slices after every failed write until they are complete, and returns when
// ctx ends.
func (t *Tracker) Run(ctx context.Context, list func(context.Context) ([]resourceapi.ResourceSlice, error)) error {
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-t.writeFails.C():
		}
		for pause := verifyMin; background.Sleep(ctx, pause); pause = min(2*pause, verifyMax) {
			present, err := list(ctx)
			if err == nil {
				err = t.compare(present)
			}
			if err == nil {
				klog.FromContext(ctx).Info("The API server has all slices of this node again")
				break
			}
		}
	}
}

// compare clears the failure of the writes if the API server has the wanted slices.
func (t *Tracker) compare(present []resourceapi.ResourceSlice) error {
	has := map[string]poolSum{}
	for _, s := range present {
		sum := has[s.Spec.Pool.Name]
		sum.add(s.Spec.Devices)
		has[s.Spec.Pool.Name] = sum
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if !maps.Equal(t.wanted, has) {
		return errOtherSlices // the failed write has the better message, and stays
	}
	t.set(writes, nil)
	return nil
}

// Failure returns since when the API server lacks slices, and why. started is the time at
// which the driver was started.
func (t *Tracker) Failure(started time.Time) Failure {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out Failure
	if !t.published {
		out = Failure{started, ErrNotPublished}
	}
	for _, part := range []string{writes, Hardware, Networks} { // the last one explains most
		f, failed := t.failures[part]
		if !failed {
			continue
		}
		if out.Since.IsZero() || f.Since.Before(out.Since) {
			out.Since = f.Since
		}
		out.Err = f.Err
	}
	return out
}
