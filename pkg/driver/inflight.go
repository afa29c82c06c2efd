package driver

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
	mu         sync.Mutex
	operations map[*operation]struct{}
}

// operation is an operation that runs, with its limit.
type operation struct {
	begun time.Time
	limit time.Duration
}

// stuck reports whether the operation has not ended some time after its limit.
func (o operation) stuck(now time.Time) bool { return now.Sub(o.begun) > o.limit+overtime }

// begin adds an operation and returns the function that removes it.
func (f *inFlight) begin(limit time.Duration) (end func()) {
	o := &operation{begun: time.Now(), limit: limit}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.operations == nil {
		f.operations = map[*operation]struct{}{}
	}
	f.operations[o] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.operations, o)
	}
}

// queue counts the operations.
func (f *inFlight) queue(now time.Time) metrics.Queue {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := metrics.Queue{Length: len(f.operations)}
	for o := range f.operations {
		q.Oldest = max(q.Oldest, now.Sub(o.begun))
		if o.stuck(now) {
			q.Stuck++
		}
	}
	return q
}
