package background

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"
)

// TestGroup checks that stop cancels one goroutine and Cancel all of them, with its cause.
func TestGroup(t *testing.T) {
	g := NewGroup(t.Context())
	causes := make(chan error, 3)
	wait := func(ctx context.Context) { <-ctx.Done(); causes <- context.Cause(ctx) }
	stop := g.Start(wait)
	stop()
	if err := <-causes; !errors.Is(err, context.Canceled) {
		t.Errorf("stopped by %v", err)
	}
	g.Go(wait)
	g.Start(wait)
	ended := errors.New("the end")
	g.Cancel(ended)
	g.Wait()
	for range 2 {
		if err := <-causes; !errors.Is(err, ended) {
			t.Errorf("cancelled by %v", err)
		}
	}
}

// TestTrigger checks that several signals become one, and that Set never blocks.
func TestTrigger(t *testing.T) {
	trigger := NewTrigger()
	trigger.Set()
	trigger.Set()
	<-trigger.C()
	select {
	case <-trigger.C():
		t.Error("two signals")
	default:
	}
}

// TestSleep checks that Sleep reports whether ctx has ended first.
func TestSleep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		if !Sleep(t.Context(), time.Minute) {
			t.Error("ended early")
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if Sleep(ctx, time.Minute) {
			t.Error("slept too long")
		}
	})
}
