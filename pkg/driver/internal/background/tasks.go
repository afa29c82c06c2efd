package background

import (
	"context"
	"maps"
	"slices"
	"sync"
	"time"
)

// Tasks runs tasks of a loop beside each other, so that one that takes long does not delay the
// others, and one of each name at a time. The zero value runs none.
type Tasks struct {
	mu      sync.Mutex
	running map[string]chan struct{} // closed when the task ends
}

// Start runs do in a goroutine, unless a task of this name runs.
func (t *Tasks) Start(name string, do func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.running[name] != nil {
		return
	}
	if t.running == nil {
		t.running = map[string]chan struct{}{}
	}
	ended := make(chan struct{})
	t.running[name] = ended
	go func() {
		defer close(ended)
		do()
		t.mu.Lock()
		defer t.mu.Unlock()
		delete(t.running, name)
	}()
}

// Wait waits for the tasks that run, but not longer than limit, or ctx.
func (t *Tasks) Wait(ctx context.Context, limit time.Duration) {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	t.mu.Lock()
	running := slices.Collect(maps.Values(t.running))
	t.mu.Unlock()
	for _, ended := range running {
		if !Await(ctx, ended) {
			return
		}
	}
}
