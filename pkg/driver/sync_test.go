package driver

import (
	"context"
	"errors"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Run with -race: the counter has no other guard.
func TestPodLocksHoldOnePodAtATime(t *testing.T) {
	var locks podLocks
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
	cancel(errors.New("the hook's time is over"))
	if _, err := locks.lock(ctx, "a"); err == nil || !strings.Contains(err.Error(), "the hook's time is over") {
		t.Errorf("waiting without time: %v", err)
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
		away := errors.New("the socket is not there")
		l.lost(away) // lost before it was found
		if up, since, limit, why := l.look(); up || !since.IsZero() || !errors.Is(why, away) || limit != 0 {
			t.Errorf("before the first connection: %v, %v, %v, %v", up, since, why, limit)
		}
		l.found()
		l.limited(2 * time.Second)
		found := time.Now()
		time.Sleep(time.Second)
		l.found()
		if up, since, limit, why := l.look(); !up || !since.Equal(found) || why != nil || limit != 2*time.Second {
			t.Errorf("connected: %v, %v, %v, %v", up, since, why, limit)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
		l.lost(away)
		lost := time.Now()
		time.Sleep(time.Second)
		l.lost(errors.New("still away"))
		if up, since, _, why := l.look(); up || !since.Equal(lost) || why.Error() != "still away" {
			t.Errorf("lost: %v, %v, %v", up, since, why)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.wait(ctx); err == nil {
			t.Error("no wait after the link was lost")
		}
	})
}

// Who holds the lock and gives way does so for lock, whenever that comes, and
// not for its like.
func TestPodLockGivesWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var locks podLocks
		held, release, err := locks.lockGivingWay(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		order := make(chan string, 2)
		var wg sync.WaitGroup
		wg.Go(func() {
			second, release, err := locks.lockGivingWay(t.Context(), "a")
			if err != nil {
				t.Error(err)
				return
			}
			defer release()
			if !errors.Is(context.Cause(second), errGoesFirst) {
				<-second.Done()
			}
			order <- "second"
		})
		synctest.Wait()
		if held.Err() != nil {
			t.Errorf("it gives way to its like: %v", context.Cause(held))
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
		if !errors.Is(context.Cause(held), errGoesFirst) {
			t.Errorf("it does not give way: %v", context.Cause(held))
		}
		release()
		wg.Wait()
		<-order
		<-order
		if len(locks.locks) > 0 {
			t.Errorf("remembered: %v", locks.locks)
		}
		free, release, err := locks.lockGivingWay(t.Context(), "a")
		if err != nil || free.Err() != nil {
			t.Errorf("nobody waits any more: %v, %v", err, context.Cause(free))
		}
		release()
	})
}
