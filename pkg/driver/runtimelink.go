package driver

import (
	"context"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

// runtimeLink has the state of the connection to the container runtime, and lets others wait
// for it. Make it with newRuntimeLink.
type runtimeLink struct {
	mu      sync.Mutex
	up      chan struct{} // closed while the link is up
	since   time.Time
	err     error
	limit   time.Duration
	runtime string // the runtime's name
}

// newRuntimeLink returns a link that is not connected.
func newRuntimeLink() *runtimeLink { return &runtimeLink{up: make(chan struct{})} }

// channel returns the channel that is closed while the link is up.
func (l *runtimeLink) channel() chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.up
}

// connected records that the runtime is connected and synchronised.
func (l *runtimeLink) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !isClosed(l.up) {
		close(l.up)
		l.since, l.err = time.Now(), nil
	}
}

// lost records that the link is down, and why.
func (l *runtimeLink) lost(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.err = err
	if isClosed(l.up) {
		l.up, l.since = make(chan struct{}), time.Now()
	}
}

func isClosed(c chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// setLimit records the runtime's limit for a request.
func (l *runtimeLink) setLimit(limit time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.limit = limit
}

// setRuntime records the runtime's name.
func (l *runtimeLink) setRuntime(name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.runtime = name
}

// name returns the runtime's name. It returns "" before the first connection.
func (l *runtimeLink) name() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.runtime
}

// linkState is the state of a runtimeLink.
type linkState struct {
	up bool
	// since is when the link came up or was lost. It is zero before the first connection.
	since time.Time
	// limit is the runtime's limit for a request. It is zero before the first connection.
	limit time.Duration
	// err is what ended the latest connection, or prevented it.
	err error
}

// state returns the state of the link.
func (l *runtimeLink) state() linkState {
	l.mu.Lock()
	defer l.mu.Unlock()
	return linkState{isClosed(l.up), l.since, l.limit, l.err}
}

// wait returns nil when the link is up, or the error of ctx.
func (l *runtimeLink) wait(ctx context.Context) error {
	if !background.Await(ctx, l.channel()) {
		return ctx.Err()
	}
	return nil
}
