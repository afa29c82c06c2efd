package operations

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
)

// TestLocksHoldOnePodAtATime needs -race: the counter has no other guard.
func TestLocksHoldOnePodAtATime(t *testing.T) {
	locks := newLocks(1, "the pod")
	lock := func(uid string) func() {
		unlock, err := locks.lock(t.Context(), uid)
		if err != nil {
			t.Error(err)
		}
		return unlock
	}
	unlock := lock("a")
	lock("b")() // another pod goes on
	inside, wg := 0, sync.WaitGroup{}
	for range 50 {
		wg.Go(func() {
			defer lock("a")()
			if inside++; inside != 1 {
				t.Errorf("%d hold the lock", inside)
			}
			inside--
		})
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	over := errors.New("the hook's time is over")
	cancel(over)
	if _, err := locks.lock(ctx, "a"); !errors.Is(err, over) {
		t.Errorf("waiting without time: %v", err)
	}
	unlock()
	wg.Wait()
	if len(locks.byID) != 0 {
		t.Errorf("%d locks are kept", len(locks.byID))
	}
}

// TestLockYields checks that a yielding holder ends for lock, whenever lock is called, and
// not for another yielding one.
func TestLockYields(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		locks := newLocks(1, "the pod")
		held, release, err := locks.lockYielding(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 2)
		var wg sync.WaitGroup
		wg.Go(func() {
			second, release, err := locks.lockYielding(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if !errors.Is(context.Cause(second), ErrGoesFirst) {
				<-second.Done()
			}
			order <- "second"
		})
		synctest.Wait()
		if held.Err() != nil {
			t.Errorf("it yields to another yielding one: %v", context.Cause(held))
		}
		wg.Go(func() {
			unlock, err := locks.lock(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer unlock()
			order <- "lock"
		})
		synctest.Wait()
		if !errors.Is(context.Cause(held), ErrGoesFirst) {
			t.Errorf("it does not yield: %v", context.Cause(held))
		}
		release()
		wg.Wait()
		<-order
		<-order
		if len(locks.byID) > 0 {
			t.Errorf("remembered: %v", locks.byID)
		}
		free, release, err := locks.lockYielding(t.Context(), "a")
		if err != nil || free.Err() != nil {
			t.Errorf("nothing waits any more: %v, %v", err, context.Cause(free))
		}
		release()
	})
}
