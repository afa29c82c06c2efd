package driver

import (
	"context"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// podLocks gives each pod a lock of its own, so that a stop cannot overtake a
// run of the same pod while other pods go on.
type podLocks struct {
	mu    sync.Mutex
	locks map[string]*podLock
}

type podLock struct {
	held  chan struct{} // of capacity 1; full while the lock is held
	users int           // guarded by podLocks.mu; the lock is forgotten at zero
	// wanted is how many wait for the lock that somebody waits for, and giveWay
	// ends the work of a holder for whom nobody does. Guarded by podLocks.mu.
	wanted  int
	giveWay context.CancelCauseFunc
}

// errGoesFirst is why a holder of lockGivingWay has to end.
const errGoesFirst = withdrawn("another operation on the pod goes first")

// lock waits for the pod's lock, as long as ctx allows, and returns the
// function that releases it.
func (p *podLocks) lock(ctx context.Context, uid string) (unlock func(), err error) {
	l := p.join(uid)
	p.want(l, 1)
	defer p.want(l, -1)
	return p.take(ctx, uid, l)
}

// lockGivingWay is lock for work that nobody waits for. It is to end with the
// context returned, which ends with errGoesFirst when somebody else wants the
// lock by lock.
func (p *podLocks) lockGivingWay(ctx context.Context, uid string) (held context.Context, unlock func(), err error) {
	l := p.join(uid)
	release, err := p.take(ctx, uid, l)
	if err != nil {
		return nil, nil, err
	}
	held, cancel := context.WithCancelCause(ctx)
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.giveWay = cancel; l.wanted > 0 {
		cancel(errGoesFirst)
	}
	return held, func() {
		p.mu.Lock()
		l.giveWay = nil
		p.mu.Unlock()
		cancel(nil)
		release()
	}, nil
}

func (p *podLocks) take(ctx context.Context, uid string, l *podLock) (unlock func(), err error) {
	select {
	case l.held <- struct{}{}:
		return func() { <-l.held; p.leave(uid, l) }, nil
	case <-ctx.Done():
		p.leave(uid, l)
		return nil, reason.Errorf(reason.DELUnfinished, "waiting for another operation on the pod: %w", context.Cause(ctx))
	}
}

// want counts one who waits for the lock, or one less.
func (p *podLocks) want(l *podLock, n int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.wanted += n; n > 0 && l.giveWay != nil {
		l.giveWay(errGoesFirst)
	}
}

func (p *podLocks) join(uid string) *podLock {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.locks == nil {
		p.locks = map[string]*podLock{}
	}
	l := p.locks[uid]
	if l == nil {
		l = &podLock{held: make(chan struct{}, 1)}
		p.locks[uid] = l
	}
	l.users++
	return l
}

func (p *podLocks) leave(uid string, l *podLock) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if l.users--; l.users == 0 {
		delete(p.locks, uid)
	}
}

// runtimeLink tells whether the container runtime is connected and
// synchronised, and lets others wait for it.
type runtimeLink struct {
	mu sync.Mutex
	up chan struct{} // closed while the link is up; nil before the first use
	// since is when it came to be as it is, up or not; zero before the first
	// connection. why is what ended the last one, or kept it from coming.
	since time.Time
	why   error
	// limit is the runtime's for a request; zero before the first connection.
	limit time.Duration
	// runtime is what the runtime calls itself; empty before the first connection.
	runtime string
}

func (l *runtimeLink) channel() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up == nil {
		l.up = make(chan struct{})
	}
	return l.up
}

func (l *runtimeLink) found() {
	up := l.channel()
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case <-up:
	default:
		close(up)
		l.since, l.why = time.Now(), nil
	}
}

// lost says that the link is not up, and why.
func (l *runtimeLink) lost(why error) {
	up := l.channel()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.why = why
	select {
	case <-up:
		l.up, l.since = make(chan struct{}), time.Now()
	default:
	}
}

// limited notes the runtime's limit for a request.
func (l *runtimeLink) limited(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
}

// called notes what the runtime calls itself.
func (l *runtimeLink) called(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runtime = name
}

// name is what the runtime calls itself; empty before the first connection.
func (l *runtimeLink) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runtime
}

// look tells how the link is.
func (l *runtimeLink) look() (up bool, since time.Time, limit time.Duration, why error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.up != nil {
		select {
		case <-l.up:
			up = true
		default:
		}
	}
	return up, l.since, l.limit, l.why
}

// wait returns when the link is up, or with the context's error.
func (l *runtimeLink) wait(ctx context.Context) error {
	select {
	case <-l.channel():
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
