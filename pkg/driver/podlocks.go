package driver

import (
	"context"
	"sync"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// podLocks has a lock for each pod, so that the stop of a sandbox cannot overtake its start
// while other pods continue.
type podLocks struct {
	mu    sync.Mutex
	locks map[string]*podLock
}

// podLock is the lock of one pod. podLocks.mu guards all fields but held.
type podLock struct {
	held  chan struct{} // of capacity 1; full while the lock is held
	users int           // the lock is forgotten at zero
	// wanted is the number of operations that wait for the lock and must not be delayed.
	// yield ends the work of a holder that can be delayed.
	wanted int
	yield  context.CancelCauseFunc
}

// newPodLocks returns locks of which none is held.
func newPodLocks() *podLocks { return &podLocks{locks: map[string]*podLock{}} }

// errGoesFirst ends the work of a holder of lockYielding.
const errGoesFirst = cancelled("another operation on the pod goes first")

// lock waits for the pod's lock until ctx ends, and returns the function that releases it.
func (p *podLocks) lock(ctx context.Context, uid string) (unlock func(), err error) {
	l := p.join(uid)
	p.want(l, 1)
	defer p.want(l, -1)
	return p.take(ctx, uid, l)
}

// lockYielding waits for the lock for work that nobody waits for. The work must end with the
// returned context, which ends with errGoesFirst when another operation calls lock.
func (p *podLocks) lockYielding(ctx context.Context, uid string) (held context.Context, unlock func(), err error) {
	l := p.join(uid)
	release, err := p.take(ctx, uid, l)
	if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.yield = cancel; l.wanted > 0 {
		cancel(errGoesFirst)
	}
	return held, func() {
		p.mu.Lock()
		l.yield = nil
		p.mu.Unlock()
		cancel(nil)
		release()
	}, nil
}

// take waits for a lock that the caller has joined.
func (p *podLocks) take(ctx context.Context, uid string, l *podLock) (unlock func(), err error) {
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; p.leave(uid, l) }, nil
	case <-ctx.Done():
		p.leave(uid, l)
		return nil, reason.Errorf(reason.DELUnfinished, "waiting for another operation on the pod: %w", context.Cause(ctx))
	}
}

// want adds n to the number of waiting operations, and makes a holder yield.
func (p *podLocks) want(l *podLock, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.wanted += n; n > 0 && l.yield != nil {
		l.yield(errGoesFirst)
	}
}

// join returns the pod's lock for one more user.
func (p *podLocks) join(uid string) *podLock {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.locks[uid]
	if l == nil {
		l = &podLock{held: make(chan struct{}, 1)}
		p.locks[uid] = l
	}
	l.users++
	return l
}

// leave removes a user of the lock.
func (p *podLocks) leave(uid string, l *podLock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(p.locks, uid)
	}
}
