// Package background runs goroutines that outlive the call that starts them.
package background

import (
	"context"
	"sync"
	"sync/atomic"
)

// Group runs goroutines with one context. Make it with NewGroup.
type Group struct {
	ctx    context.Context
	cancel context.CancelCauseFunc
	group  sync.WaitGroup
	// running counts the goroutines.
	running atomic.Int64
}

// NewGroup returns a Group whose goroutines are to end with ctx, or by Cancel.
func NewGroup(ctx context.Context) *Group {
	g := &Group{}
	g.ctx, g.cancel = context.WithCancelCause(ctx)
	return g
}

// Context returns the context of the goroutines.
func (g *Group) Context() context.Context { return g.ctx }

// Go runs do in a goroutine.
func (g *Group) Go(do func(context.Context)) {
	g.running.Add(1)
	g.group.Go(func() {
		defer g.running.Add(-1)
		do(g.ctx)
	})
}

// Start runs do in a goroutine, and returns a function that cancels its context.
func (g *Group) Start(do func(context.Context)) (stop context.CancelFunc) {
	ctx, stop := context.WithCancel(g.ctx)
	g.Go(func(context.Context) {
		defer stop()
		do(ctx)
	})
	return stop
}

// Running returns the number of goroutines that have not returned.
func (g *Group) Running() int { return int(g.running.Load()) }

// Cancel cancels the context of all goroutines.
func (g *Group) Cancel(cause error) { g.cancel(cause) }

// Wait waits until all goroutines have returned.
func (g *Group) Wait() { g.group.Wait() }
