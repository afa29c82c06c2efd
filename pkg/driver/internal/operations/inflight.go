package operations

import (
	"sync"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// overtime is how long an operation on a pod may take after its limit before it counts as
// stuck.
const overtime = 35 * time.Second

// inFlight counts operations that run. The zero value has none.
type inFlight struct {
	mu      sync.Mutex
	running map[*Begun]struct{}
}

// Begun is an operation that runs, with its limit.
type Begun struct {
	At    time.Time
	Limit time.Duration
}

// Stuck reports whether the operation has not ended some time after its limit.
func (o Begun) Stuck(now time.Time) bool { return now.Sub(o.At) > o.Limit+overtime }

// begin adds an operation and returns the function that removes it.
func (f *inFlight) begin(limit time.Duration) (end func()) {
	o := &Begun{time.Now(), limit}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.running == nil {
		f.running = map[*Begun]struct{}{}
	}
	f.running[o] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.running, o)
	}
}

// queue counts the operations.
func (f *inFlight) queue(now time.Time) metrics.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := metrics.Queue{Length: len(f.running)}
	for o := range f.running {
		q.Oldest = max(q.Oldest, now.Sub(o.At))
		if o.Stuck(now) {
			q.Stuck++
		}
	}
	return q
}
