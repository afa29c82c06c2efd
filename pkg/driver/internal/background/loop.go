package background

import (
	"context"
	"sync/atomic"
	"time"

	"k8s.io/client-go/tools/cache"
)

// Sleep waits for d. It returns false if ctx ends first.
func Sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}

// Await waits until c has a value or is closed. It returns false if ctx ends first.
func Await[T any](ctx context.Context, c <-chan T) bool {
	select {
	case <-c:
		return true
	case <-ctx.Done():
		return false
	}
}

// Heartbeat shows whether a loop that never ends still turns. The zero value belongs to a
// loop that has not begun.
type Heartbeat struct{ last atomic.Pointer[time.Time] }

// Beat records a turn of the loop.
func (h *Heartbeat) Beat() {
	now := time.Now() // with the monotonic clock: jumps of the other do not count
	h.last.Store(&now)
}

// Silence returns the time since the latest turn. It returns false if the loop has not
// begun.
func (h *Heartbeat) Silence(now time.Time) (silence time.Duration, began bool) {
	last := h.last.Load()
	if last == nil {
		return 0, false
	}
	return now.Sub(*last), true
}

// OnChange returns a handler that calls changed for each event of an informer.
func OnChange(changed func()) cache.ResourceEventHandlerFuncs {
	handle := func(any) { changed() }
	return cache.ResourceEventHandlerFuncs{AddFunc: handle, UpdateFunc: func(_, _ any) { changed() }, DeleteFunc: handle}
}

// Trigger wakes a loop. It keeps one signal until the loop takes it, so that several
// become one.
type Trigger struct{ c chan struct{} }

// NewTrigger returns a Trigger.
func NewTrigger() Trigger { return Trigger{make(chan struct{}, 1)} }

// Set wakes the loop. It never blocks.
func (t Trigger) Set() {
	select {
	case t.c <- struct{}{}:
	default:
	}
}

// C returns the channel that the loop receives from.
func (t Trigger) C() <-chan struct{} { return t.c }
