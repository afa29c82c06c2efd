package lab

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestUntilInterrupted(t *testing.T) {
	for _, tt := range []struct {
		name        string
		takes       time.Duration // of run; it does not look at its context
		code, calls int
	}{
		{"ends before the signal", time.Minute, 3, 0},
		{"ends after the signal by itself", time.Hour + time.Second, 3, 0},
		{"does not end", 24 * time.Hour, 1, 1},
	} {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, interrupt := context.WithTimeout(t.Context(), time.Hour)
				defer interrupt()
				calls := 0
				code := untilInterrupted(ctx, func() int { time.Sleep(tt.takes); return 3 }, func(ctx context.Context) error { calls++; return ctx.Err() })
				time.Sleep(tt.takes) // a bubble waits for its goroutines
				if code != tt.code || calls != tt.calls {
					t.Errorf("code %d, %d clusters stopped; want %d and %d", code, calls, tt.code, tt.calls)
				}
			})
		})
	}
}
