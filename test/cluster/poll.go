package cluster

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"
)

// poll calls try until it is done, gives up, or limit has passed. An error from try is the
// reason why it is not done yet, unless stop wraps it.
func poll(ctx context.Context, limit time.Duration, what string, try func(context.Context) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	ticker := time.NewTicker(20 * time.Millisecond)
	defer ticker.Stop()
	for {
		done, err := try(ctx)
		if done {
			return nil
		}
		var final stopError
		if errors.As(err, &final) {
			return fmt.Errorf("%s: %w", what, final.error)
		}
		select {
		case <-ctx.Done():
			if err != nil {
				return fmt.Errorf("%s: %w (last: %w)", what, ctx.Err(), err)
			}
			return fmt.Errorf("%s: %w", what, ctx.Err())
		case <-ticker.C:
		}
	}
}

// stopError ends a poll.
type stopError struct{ error }

func (e stopError) Unwrap() error { return e.error }

func stop(err error) error { return stopError{err} }

// together runs all steps at the same time. The first that fails ends the
// others.
func together(ctx context.Context, steps ...func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var all sync.WaitGroup
	for _, step := range steps {
		all.Go(func() {
			if err := step(ctx); err != nil {
				cancel(err) // only the first one counts
			}
		})
	}
	all.Wait()
	return context.Cause(ctx)
}
