package lab

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/nadra-dev/nadra/internal/kube"
)

const (
	// shortestPause and longestPause limit the time between two checks.
	shortestPause = 50 * time.Millisecond
	longestPause  = 500 * time.Millisecond
	// noticeInterval is how often Eventually prints what it waits for.
	noticeInterval = 15 * time.Second
)

// Eventually repeats check until it succeeds, and returns the last error of check after
// limit, or when ctx ends. It prints that error every 15 seconds while it waits.
func Eventually(ctx context.Context, limit time.Duration, check func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	began, notice := time.Now(), noticeInterval
	var last error
	for {
		checked := time.Now()
		err := check(ctx)
		if err == nil {
			return nil
		}
		// After the end, an error only reports that, and shortly before it perhaps, too.
		if last == nil || ctx.Err() == nil && !kube.NoTurnLeft(err) {
			last = err
		}
		waited := time.Since(began)
		if waited > notice {
			fmt.Fprintf(os.Stderr, "waiting for %s, at most %s: %v\n", waited.Round(time.Second), limit, last)
			notice += noticeInterval
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("after %s: %w", waited.Round(time.Second), last)
		case <-time.After(pauseBetween(waited, time.Since(checked))):
		}
	}
}

// pauseBetween returns the time until the next check. It grows with the time that was
// waited and with what the check takes, so that checks take no more than a fraction of
// the CPU from what they wait for.
func pauseBetween(waited, check time.Duration) time.Duration {
	return min(longestPause, max(shortestPause, waited/10, 4*check))
}
