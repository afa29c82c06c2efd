package lab

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestEventually(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		checks, began := 0, time.Now()
		err := Eventually(t.Context(), time.Minute, func(context.Context) error {
			if checks++; time.Since(began) < 10*time.Second {
				return errors.New("not yet")
			}
			return nil
		})
		late := time.Since(began) - 10*time.Second
		if err != nil || late > longestPause || checks > 60 {
			t.Errorf("error %v, %s late, %d checks", err, late, checks)
		}
	})
}

func TestEventuallyReturnsTheLastError(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		err := Eventually(t.Context(), 2*time.Second, func(ctx context.Context) error {
			if ctx.Err() != nil {
				return ctx.Err()
			}
			if left, _ := ctx.Deadline(); time.Until(left) < time.Second {
				return fmt.Errorf("listing pods: client rate limiter Wait returned an error: %w", errors.New("rate: Wait(n=1) would exceed context deadline"))
			}
			return errors.New("3 of 4 pods are Ready")
		})
		if want := "after 2s: 3 of 4 pods are Ready"; err == nil || err.Error() != want {
			t.Errorf("got %v, want %s", err, want)
		}
	})
}

// TestPauseBetween checks that long checks are repeated less often.
func TestPauseBetween(t *testing.T) {
	for _, tt := range []struct{ waited, check, want time.Duration }{
		{0, 0, shortestPause},
		{time.Second, time.Millisecond, 100 * time.Millisecond},
		{0, 100 * time.Millisecond, 400 * time.Millisecond},
		{time.Minute, time.Second, longestPause},
	} {
		if got := pauseBetween(tt.waited, tt.check); got != tt.want {
			t.Errorf("pauseBetween(%s, %s) = %s, want %s", tt.waited, tt.check, got, tt.want)
		}
	}
}
