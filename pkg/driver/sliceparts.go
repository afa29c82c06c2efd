package driver

import (
	"context"
	"maps"
	"sync"

	"k8s.io/dynamic-resource-allocation/resourceslice"
)

// sliceParts brings together what several publishers have to publish: the
// library takes all of a driver's pools at once, and deletes the slices of those
// that it is not given.
type sliceParts struct {
	send func(context.Context, resourceslice.DriverResources) error

	// mu is held while sending, so that a later call has the last word.
	mu    sync.Mutex
	parts map[string]poolMaker
}

// poolMaker makes the pools of a part. Thousands of devices are made anew where
// they are needed, as the library keeps its own copies of them.
type poolMaker func() map[string]resourceslice.Pool

// put keeps a part for the next publication.
func (s *sliceParts) put(part string, pools poolMaker) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(part, pools)
}

func (s *sliceParts) set(part string, pools poolMaker) {
	if s.parts == nil {
		s.parts = map[string]poolMaker{}
	}
	s.parts[part] = pools
}

// publish replaces a part and publishes all.
func (s *sliceParts) publish(ctx context.Context, part string, pools poolMaker) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(part, pools)
	all := map[string]resourceslice.Pool{}
	for _, pools := range s.parts {
		maps.Copy(all, pools())
	}
	return s.send(ctx, resourceslice.DriverResources{Pools: all})
}
