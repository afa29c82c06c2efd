package driver

import (
	"sync"
	"time"
)

// forgetAfter is the time after which something that was not seen again counts as new.
const forgetAfter = 10 * time.Minute

// firstTimes remembers when something was first seen, for as long as it is seen repeatedly.
// The zero value is empty.
type firstTimes struct {
	mu    sync.Mutex
	times map[string]seen
}

type seen struct{ first, last time.Time }

// since records that key is seen now, and returns when it was seen first.
func (f *firstTimes) since(key string, now time.Time) time.Time {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.times == nil {
		f.times = map[string]seen{}
	}
	for k, s := range f.times {
		if now.Sub(s.last) > forgetAfter {
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
