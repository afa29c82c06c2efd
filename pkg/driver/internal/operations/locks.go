package operations

import (
	"context"
	"sync"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// locks has a lock for each ID: of pods, so that the stop of a sandbox cannot overtake its start
// while other pods continue, and of plugins.
type locks struct {
	capacity int
	what     string // what a waiter waits for, for messages
	mu       sync.Mutex
	byID     map[string]*lock
}

// lock is the lock of one ID. locks.mu guards all fields but held.
type lock struct {
	held  chan struct{} // full while as many hold the lock as may
	users int           // the lock is forgotten at zero
	// wanted is the number of operations that wait for the lock and must not be delayed.
	// yield ends the work of a holder that can be delayed.
	wanted int
	yield  context.CancelCauseFunc
}

// newLocks returns locks of which none is held, and which that many may hold at a time.
func newLocks(capacity int, what string) *locks {
	return &locks{capacity: capacity, what: what, byID: map[string]*lock{}}
}

// lock waits for a lock until ctx ends, and returns the function that releases it.
func (ls *locks) lock(ctx context.Context, id string) (unlock func(), err error) {
	l := ls.join(id)
	ls.want(l, 1)
	defer ls.want(l, -1)
	return ls.take(ctx, id, l)
}

// lockYielding waits for the lock for work that nobody waits for. The work must end with the
// returned context, which ends with ErrGoesFirst when another operation calls lock.
func (ls *locks) lockYielding(ctx context.Context, id string) (held context.Context, unlock func(), err error) {
	l := ls.join(id)
	release, err := ls.take(ctx, id, l)
	if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.yield = cancel; l.wanted > 0 {
		cancel(ErrGoesFirst)
	}
	return held, func() {
		ls.mu.Lock()
		l.yield = nil
		ls.mu.Unlock()
		cancel(nil)
		release()
	}, nil
}

// take waits for a lock that the caller has joined.
func (ls *locks) take(ctx context.Context, id string, l *lock) (unlock func(), err error) {
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; ls.leave(id, l) }, nil
	case <-ctx.Done():
		ls.leave(id, l)
		return nil, reason.Errorf(reason.DELUnfinished, "waiting for %s: %w", ls.what, context.Cause(ctx))
	}
}

// want adds n to the number of waiting operations, and makes a holder yield.
func (ls *locks) want(l *lock, n int) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.wanted += n; n > 0 && l.yield != nil {
		l.yield(ErrGoesFirst)
	}
}

// join returns the lock of an ID for one more user.
func (ls *locks) join(id string) *lock {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	l := ls.byID[id]
	if l == nil {
		l = &lock{held: make(chan struct{}, ls.capacity)}
		ls.byID[id] = l
	}
	l.users++
	return l
}

// leave removes a user of the lock.
func (ls *locks) leave(id string, l *lock) {
	ls.mu.Lock()
	defer ls.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(ls.byID, id)
	}
}
