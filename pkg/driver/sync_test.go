package driver

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Run with -race: the counter has no other guard.
func TestPodLocksHoldOnePodAtATime(t *testing.T) {
	var locks podLocks
	unlock := locks.lock("a")
	locks.lock("b")() // another pod goes on
	inside, wg := 0, sync.WaitGroup{}
	for range 50 {
		wg.Go(func() {
			defer locks.lock("a")()
			if inside++; inside != 1 {
				t.Errorf("%d hold the lock", inside)
			}
			inside--
		})
	}
	unlock()
	wg.Wait()
	if len(locks.locks) != 0 {
		t.Errorf("%d locks are kept", len(locks.locks))
	}
}

func TestRuntimeLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var l runtimeLink
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for a runtime that is away: %v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- l.wait(t.Context()) }()
		synctest.Wait()
		l.lost() // lost before it was found
		l.found()
		l.found()
		if err := <-waited; err != nil {
			t.Error(err)
		}
		l.lost()
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.wait(ctx); err == nil {
			t.Error("no wait after the link was lost")
		}
	})
}
