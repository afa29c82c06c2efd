package slicewriter

import (
	"context"
	"maps"
	"sync"

	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// The parts of what the driver publishes.
const (
	Networks = "networks"
	Hardware = "hardware"
)

// PoolMaker returns the pools of a part. Thousands of devices are made again whenever they
// are needed, because the library keeps its own copies of them.
type PoolMaker func() map[string]resourceslice.Pool

// Writer publishes the pools of all parts together: the library deletes the slices of
// pools that it is not given.
type Writer struct {
	send    func(context.Context, resourceslice.DriverResources) error
	tracker *Tracker

	// mu is held while sending, so that the latest call determines what is published.
	mu    sync.Mutex
	parts map[string]PoolMaker
}

// New returns a Writer. send hands pools to the library, and the tracker learns of them.
func New(send func(context.Context, resourceslice.DriverResources) error, tracker *Tracker) *Writer {
	return &Writer{send: send, tracker: tracker, parts: map[string]PoolMaker{}}
}

// Put keeps a part for the next publication.
func (w *Writer) Put(part string, pools PoolMaker) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts[part] = pools
}

// Part returns the function by which one part is published.
func (w *Writer) Part(part string) func(context.Context, PoolMaker) error {
	return func(ctx context.Context, pools PoolMaker) error { return w.publish(ctx, part, pools) }
}

// publish replaces a part and publishes all parts. It leaves out pools without slices: the library would publish an
// empty one for each, and cluster-autoscaler takes the slices of a node for a measure of its use.
func (w *Writer) publish(ctx context.Context, part string, pools PoolMaker) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.parts[part] = pools
	all := map[string]resourceslice.Pool{}
	for _, pools := range w.parts {
		maps.Copy(all, pools())
	}
	maps.DeleteFunc(all, func(_ string, p resourceslice.Pool) bool { return len(p.Slices) == 0 })
	w.tracker.setWanted(all)
	return w.send(ctx, resourceslice.DriverResources{Pools: all})
}
