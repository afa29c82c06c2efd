package driver

import (
	"sync"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// underway counts operations that are being done. The zero value has none.
type underway struct {
	mu         sync.Mutex
	operations map[*operation]struct{}
}

// operation is one that is being done, and how long it may take.
type operation struct {
	begun time.Time
	limit time.Duration
}

// stuck reports whether the operation has not ended some time after its limit.
func (o operation) stuck(now time.Time) bool { return now.Sub(o.begun) > o.limit+endTime }

// begin notes an operation and returns what notes its end.
func (u *underway) begin(limit time.Duration) (end func()) {
	o := &operation{begun: time.Now(), limit: limit}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.operations == nil {
		u.operations = map[*operation]struct{}{}
	}
	u.operations[o] = struct{}{}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.operations, o)
	}
}

// look counts the operations.
func (u *underway) look(now time.Time) metrics.Queue {
	u.mu.Lock()
	defer u.mu.Unlock()
	q := metrics.Queue{Length: len(u.operations)}
	for o := range u.operations {
		q.Oldest = max(q.Oldest, now.Sub(o.begun))
		if o.stuck(now) {
			q.Stuck++
		}
	}
	return q
}

// States of pods whose containers wait for networks.
const (
	// podAttaching is being attached, and nothing has failed yet.
	podAttaching = "attaching"
	// podRetrying is being attached again after an attempt that failed.
	podRetrying = "retrying"
	// podFailed could not be attached; the kubelet's next request for a container
	// begins anew.
	podFailed = "failed"
)

// look counts the jobs that run, and the pods whose containers wait, by state.
func (js *jobs) look(now time.Time) (running metrics.Queue, blocked map[string]int) {
	js.mu.Lock()
	defer js.mu.Unlock()
	blocked = map[string]int{podAttaching: 0, podRetrying: 0, podFailed: 0}
	for _, j := range js.byPod {
		state := j.state()
		if state == "" {
			continue
		}
		blocked[state]++
		if state != podFailed {
			running.Length++
			running.Oldest = max(running.Oldest, now.Sub(j.begun))
			if (operation{j.begun, j.limit}).stuck(now) {
				running.Stuck++
			}
		}
	}
	return running, blocked
}

// state is that of the job's pod; empty where the job is over and there is
// nothing to tell of it.
func (j *job) state() string {
	ended, why := j.failure()
	switch {
	case ended.IsZero() && why == nil:
		return podAttaching
	case ended.IsZero():
		return podRetrying
	case why == nil, isWithdrawn(why):
		return ""
	}
	return podFailed
}
