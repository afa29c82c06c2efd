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
	parts map[string]map[string]resourceslice.Pool
}

// put keeps a part for the next publication.
func (s *sliceParts) put(part string, made map[string]resourceslice.Pool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(part, made)
}

func (s *sliceParts) set(part string, made map[string]resourceslice.Pool) {
	if s.parts == nil {
		s.parts = map[string]map[string]resourceslice.Pool{}
	}
	s.parts[part] = made
}

// publish replaces a part and publishes all.
func (s *sliceParts) publish(ctx context.Context, part string, made map[string]resourceslice.Pool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(part, made)
	all := map[string]resourceslice.Pool{}
	for _, pools := range s.parts {
		maps.Copy(all, pools)
	}
	return s.send(ctx, resourceslice.DriverResources{Pools: all})
}
