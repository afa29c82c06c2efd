package driver

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestRuntimeLink checks the states of the link, and that others can wait for it.
func TestRuntimeLink(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRuntimeLink()
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.wait(ctx); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("waiting for a runtime that is away: %v", err)
		}
		waited := make(chan error, 1)
		go func() { waited <- l.wait(t.Context()) }()
		synctest.Wait()
		away := errors.New("the socket is not there")
		l.lost(away) // lost before it was connected
		if s := l.state(); s.up || !s.since.IsZero() || !errors.Is(s.err, away) || s.limit != 0 {
			t.Errorf("before the first connection: %+v", s)
		}
		l.connected()
		l.setLimit(2 * time.Second)
		found := time.Now()
		time.Sleep(time.Second)
		l.connected()
		if s := l.state(); !s.up || !s.since.Equal(found) || s.err != nil || s.limit != 2*time.Second {
			t.Errorf("connected: %+v", s)
		}
		if err := <-waited; err != nil {
			t.Error(err)
		}
		l.lost(away)
		lost := time.Now()
		time.Sleep(time.Second)
		l.lost(errors.New("still away"))
		if s := l.state(); s.up || !s.since.Equal(lost) || s.err.Error() != "still away" {
			t.Errorf("lost: %+v", s)
		}
		ctx, cancel = context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if err := l.wait(ctx); err == nil {
			t.Error("no wait after the link was lost")
		}
	})
}
