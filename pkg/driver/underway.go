package driver

import (
	"sync"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
)

// underway are operations that are being done, for whoever wants to know how
// many and since when. The zero value has none.
type underway struct {
	mu    sync.Mutex
	begun map[*time.Time]struct{}
}

// begin notes an operation and returns what notes its end.
func (u *underway) begin() (end func()) {
	now := time.Now()
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.begun == nil {
		u.begun = map[*time.Time]struct{}{}
	}
	u.begun[&now] = struct{}{}
	return func() {
		u.mu.Lock()
		defer u.mu.Unlock()
		delete(u.begun, &now)
	}
}

func (u *underway) look(now time.Time) metrics.Queue {
	u.mu.Lock()
	defer u.mu.Unlock()
	q := metrics.Queue{Length: len(u.begun)}
	for since := range u.begun {
		q.Oldest = max(q.Oldest, now.Sub(*since))
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

// look tells of the jobs that run, and of the pods that they are for.
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
