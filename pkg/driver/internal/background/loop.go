package background

import (
	"context"
	"sync/atomic"
	"time"
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

// Heartbeat shows whether a loop that never ends still turns. The zero value belongs to a
// loop that has not begun.
type Heartbeat struct{ last atomic.Int64 }

// Beat records a turn of the loop.
func (h *Heartbeat) Beat() { h.last.Store(time.Now().UnixNano()) }

// Silence returns the time since the latest turn. It returns false if the loop has not
// begun.
func (h *Heartbeat) Silence(now time.Time) (silence time.Duration, began bool) {
	last := h.last.Load()
	return now.Sub(time.Unix(0, last)), last != 0
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
