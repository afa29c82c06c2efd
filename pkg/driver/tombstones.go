package driver

import (
	"sync"
	"time"
)

// tombstoneLife is how long an unprepared claim stays so. A call of Prepare
// that the kubelet has given up lives 45 s at most.
const tombstoneLife = 5 * time.Minute

// tombstones remember which claims were unprepared for which pod, so that a
// Prepare that was overtaken does not bring them back: nobody would unprepare
// them again. A claim that its next pod uses is prepared as usual. They need
// no disk: a call does not outlive the process.
type tombstones struct {
	mu     sync.Mutex
	buried map[tombstone]time.Time
}

type tombstone struct{ claimUID, podUID string }

func (t *tombstones) bury(claimUID, podUID string, now time.Time) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.buried == nil {
		t.buried = map[tombstone]time.Time{}
	}
	for k, at := range t.buried {
		if now.Sub(at) > tombstoneLife {
			delete(t.buried, k)
		}
	}
	t.buried[tombstone{claimUID, podUID}] = now
}

// firstTimes remember when something was first seen, for as long as it is seen
// again and again.
type firstTimes struct {
	mu    sync.Mutex
	times map[string]seen
}

type seen struct{ first, last time.Time }

// forgotten is how long something must not be seen to be new.
const forgotten = 10 * time.Minute

// since notes that key is seen now and returns when it was seen first.
func (f *firstTimes) since(key string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.times == nil {
		f.times = map[string]seen{}
	}
	for k, s := range f.times {
		if now.Sub(s.last) > forgotten {
			delete(f.times, k)
		}
	}
	s, found := f.times[key]
	if !found {
		s.first = now
	}
	s.last = now
	f.times[key] = s
	return s.first
}

func (t *tombstones) has(claimUID, podUID string, now time.Time) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	at, found := t.buried[tombstone{claimUID, podUID}]
	return found && now.Sub(at) <= tombstoneLife
}
