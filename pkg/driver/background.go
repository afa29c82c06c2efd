package driver

import (
	"context"
	"sync"
	"time"
)

// background is work that nobody waits for and that ends with the driver.
type background struct {
	// base ends as soon as the driver is told to stop.
	base  context.Context
	group sync.WaitGroup
}

// start begins to run do, with a context that ends with the driver or by stop.
func (b *background) start(do func(context.Context)) (stop context.CancelFunc) {
	ctx, stop := context.WithCancel(b.base)
	b.group.Go(func() {
		defer stop()
		do(ctx)
	})
	return stop
}

// slots bound how much is done at a time.
type slots chan struct{}

// take waits for a slot; it is false when ctx ends first.
func (s slots) take(ctx context.Context) bool {
	if ctx.Err() != nil {
		return false
	}
	select {
	case s <- struct{}{}:
		return true
	case <-ctx.Done():
		return false
	}
}

func (s slots) give() { <-s }

// sleep waits; it is false when ctx ends first.
func sleep(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-ctx.Done():
		return false
	}
}
