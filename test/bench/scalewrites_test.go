package bench

import (
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/test/bench/stats"
)

// writeLog passes requests on and records those that update slices.
type writeLog struct {
	next http.RoundTripper

	mu      sync.Mutex
	updates map[string]*update // by path
}

// update has when a slice's update was first sent and when it was answered, and its size. The
// API server may reject requests that wait too long, and they are sent again.
type update struct {
	sent, answered time.Time
	bytes          int64
}

// RoundTrip implements http.RoundTripper.
func (l *writeLog) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Method != http.MethodPut || !strings.Contains(r.URL.Path, "/resourceslices/") {
		return l.next.RoundTrip(r)
	}
	sent := time.Now()
	response, err := l.next.RoundTrip(r)
	l.mu.Lock()
	defer l.mu.Unlock()
	u := l.updates[r.URL.Path]
	if u == nil {
		u = &update{sent: sent, bytes: r.ContentLength}
		l.updates[r.URL.Path] = u
	}
	u.answered = time.Now()
	return response, err
}

// reset forgets the updates so far.
func (l *writeLog) reset() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.updates = map[string]*update{}
}

// all returns the updates so far in the order in which they were first sent.
func (l *writeLog) all() []*update {
	l.mu.Lock()
	defer l.mu.Unlock()
	return slices.SortedFunc(maps.Values(l.updates), func(a, b *update) int { return a.sent.Compare(b.sent) })
}

// of returns the updates of the slices of a node or profile, by their names.
func (l *writeLog) of(name string) map[string]*update {
	l.mu.Lock()
	defer l.mu.Unlock()
	out := map[string]*update{}
	for path, u := range l.updates {
		if slice := filepath.Base(path); strings.Contains(slice, "-"+name+"-") {
			out[slice] = u
		}
	}
	return out
}

// answered returns how long each update took until it was stored.
func answered(all []*update) stats.Sample {
	var out stats.Sample
	for _, u := range all {
		out.Add(u.answered.Sub(u.sent))
	}
	return out
}

// lastAnswer returns when the last update was stored.
func lastAnswer(all []*update) time.Time {
	return slices.MaxFunc(all, func(a, b *update) int { return a.answered.Compare(b.answered) }).answered
}

// peak returns the most updates that were sent in one second.
func peak(all []*update) int {
	most, first := 0, 0
	for i, u := range all {
		for u.sent.Sub(all[first].sent) >= time.Second {
			first++
		}
		most = max(most, i-first+1)
	}
	return most
}
