package operations_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/cniexec"
	"github.com/nadra-dev/nadra/pkg/driver/internal/operations"
	"github.com/nadra-dev/nadra/test/drivertest"
)

// plugins has plugins whose calls take as long as call does.
type plugins struct {
	*drivertest.Kernel
	call func(ctx context.Context) error
}

func (p plugins) Del(ctx context.Context, _ attachment.Sandbox, _ attachment.Attachment, _ json.RawMessage) error {
	return p.call(ctx)
}

func (p plugins) Check(ctx context.Context, _ attachment.Sandbox, _ attachment.Attachment, _ json.RawMessage) ([]string, error) {
	return nil, p.call(ctx)
}

func (p plugins) Status(ctx context.Context, conflist json.RawMessage) error { return p.call(ctx) }

// limits are those of one ADD and one DEL.
var limits = operations.Limits{Add: 30 * time.Second, Del: 10 * time.Second}

var net1 = attachment.Attachment{Interface: "net1", Conflist: json.RawMessage(`{"plugins":[{"type":"macvlan"}]}`)}

// inGroup runs a test with a group whose plugins' calls are call.
func inGroup(t *testing.T, call func(context.Context) error, test func(t *testing.T, g *operations.Group)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		test(t, operations.New(t.Context(), plugins{drivertest.NewKernel(), call}, limits))
	})
}

// del returns an operation's work: the DEL of net1 in a sandbox.
func del(g *operations.Group, s attachment.Sandbox) func(context.Context) error {
	return func(ctx context.Context) error { return g.Del(ctx, s, net1, nil) }
}

func until(d time.Duration, manner operations.Manner) operations.Operation {
	return operations.Operation{Pod: drivertest.Web, Limit: d, Over: errors.New("the time is over"), Manner: manner}
}

// hang ends with its context, and ends returns at once.
func hang(ctx context.Context) error { <-ctx.Done(); return context.Cause(ctx) }

func ends(context.Context) error { return nil }

// TestCallsNeedTheLock checks that no plugin is called without the lock of its pod, or of its sandbox
// if the pod is unknown.
func TestCallsNeedTheLock(t *testing.T) {
	inGroup(t, ends, func(t *testing.T, g *operations.Group) {
		s := drivertest.SandboxNo(1)
		orphan := cniexec.Cached{CacheEntry: cniexec.CacheEntry{ContainerID: s.ID, Config: net1.Conflist}}
		for verb, call := range map[string]func(context.Context) error{
			"ADD":              func(ctx context.Context) error { _, err := g.Add(ctx, s, net1, nil); return err },
			"DEL":              del(g, s),
			"DEL of an orphan": func(ctx context.Context) error { return g.DelOrphan(ctx, orphan) },
			"CHECK":            func(ctx context.Context) error { _, err := g.Check(ctx, s, net1, nil); return err },
		} {
			if err := call(t.Context()); err == nil || !strings.Contains(err.Error(), s.ID) {
				t.Errorf("%s: %v", verb, err)
			}
		}
		other := until(time.Minute, operations.Waited)
		other.Pod.UID = "other"
		drivertest.WantError(t, g.Do(t.Context(), other, del(g, s)), s.ID)
		if err := g.Do(t.Context(), until(time.Minute, operations.Waited), del(g, s)); err != nil {
			t.Error(err)
		}
		unknown := attachment.Sandbox{ID: "sandbox-2"}
		if err := g.Do(t.Context(), operations.Operation{Sandbox: unknown.ID, Limit: time.Minute}, del(g, unknown)); err != nil {
			t.Error(err)
		}
	})
}

// TestRunningDELIsNotInterrupted checks that neither the end of an operation's time nor another
// operation ends a DEL that runs: bridge would lose the rules of ipMasq. Its own limit does.
func TestRunningDELIsNotInterrupted(t *testing.T) {
	sleeps := func(ctx context.Context) error { time.Sleep(5 * time.Second); return ctx.Err() }
	inGroup(t, sleeps, func(t *testing.T, g *operations.Group) {
		if err := g.Do(t.Context(), until(time.Second, operations.Waited), del(g, drivertest.SandboxNo(1))); err != nil {
			t.Errorf("after the operation's time: %v", err)
		}
		go func() {
			time.Sleep(time.Second)
			unlock, err := g.Lock(t.Context(), drivertest.Web.UID)
			if err != nil {
				t.Error(err)
			}
			unlock()
		}()
		err := g.Do(t.Context(), until(time.Minute, operations.Yielding), func(ctx context.Context) error {
			err := del(g, drivertest.SandboxNo(1))(ctx)
			if !errors.Is(context.Cause(ctx), operations.ErrGoesFirst) {
				t.Errorf("it does not yield afterwards: %v", context.Cause(ctx))
			}
			return err
		})
		if err != nil {
			t.Errorf("beside another operation: %v", err)
		}
	})
	inGroup(t, hang, func(t *testing.T, g *operations.Group) {
		began := time.Now()
		err := g.Do(t.Context(), until(time.Hour, operations.Waited), del(g, drivertest.SandboxNo(1)))
		drivertest.WantReason(t, err, reason.DELUnfinished, "10s")
		drivertest.Same(t, "time", limits.Del, time.Since(began))
	})
}

// TestStopEndsADELInTheEnd checks that a DEL that runs goes on after the end of its caller, and ends when the
// time of the stop is over. A DEL of a caller of its own has its time also after that.
func TestStopEndsADELInTheEnd(t *testing.T) {
	inGroup(t, hang, func(t *testing.T, g *operations.Group) {
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() {
			_ = g.Run(ctx, until(time.Hour, operations.Yielding), func(ctx context.Context) error {
				err := del(g, drivertest.SandboxNo(1))(ctx)
				ended <- err
				return err
			})
		}()
		synctest.Wait()
		stop()
		synctest.Wait()
		drivertest.Same(t, "operations that run", 1, g.Running())
		stopped := errors.New("the driver was stopped")
		g.Cancel(stopped)
		if err := <-ended; !errors.Is(err, stopped) {
			t.Errorf("it ends by %v", err)
		}
		g.Wait()
		err := g.Do(t.Context(), until(time.Hour, operations.Waited), del(g, drivertest.SandboxNo(1)))
		drivertest.WantReason(t, err, reason.DELUnfinished, "10s")
	})
}

// TestRunGoesOn checks that an operation of the kubelet's goes on when the kubelet does not wait any
// longer.
func TestRunGoesOn(t *testing.T) {
	sleeps := func(ctx context.Context) error { time.Sleep(5 * time.Second); return ctx.Err() }
	inGroup(t, sleeps, func(t *testing.T, g *operations.Group) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		done := false
		err := g.Run(ctx, until(time.Minute, operations.Waited), func(ctx context.Context) error {
			defer func() { done = true }()
			return errors.Join(del(g, drivertest.SandboxNo(1))(ctx), del(g, drivertest.SandboxNo(1))(ctx))
		})
		drivertest.WantReason(t, err, reason.DELUnfinished)
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("it ends by %v", err)
		}
		g.Wait()
		drivertest.Same(t, "done", true, done)
	})
}

// TestWorkersWaitForNoPod checks that calls of operations that nobody waits for are a few at a time, and
// that an operation that somebody waits for waits for none of them, even on a pod whose own operation
// waits for its turn.
func TestWorkersWaitForNoPod(t *testing.T) {
	inGroup(t, hang, func(t *testing.T, g *operations.Group) {
		pods := 2 * operations.Workers
		for i := range pods {
			s := drivertest.SandboxNo(i)
			s.Pod.UID = s.ID
			op := until(time.Minute, operations.Yielding)
			op.Pod = s.Pod
			g.Go(func(ctx context.Context) {
				if err := g.Do(ctx, op, del(g, s)); errors.Is(err, operations.ErrNotBegun) != errors.Is(err, operations.ErrGoesFirst) {
					t.Error(err)
				}
			})
		}
		synctest.Wait()
		waited := 0
		for i := range pods {
			ctx, cancel := context.WithTimeout(t.Context(), time.Second)
			if unlock, err := g.Lock(ctx, drivertest.SandboxNo(i).ID); err == nil {
				waited++
				unlock()
			}
			cancel()
		}
		drivertest.Same(t, "pods that are free at once", pods-operations.Workers, waited)
		g.Wait()
	})
}

// TestYieldingEndsWithItsCaller checks that an operation that yields finishes the call that runs when
// its caller ends, which is the loop of a driver that stops, and begins no other.
func TestYieldingEndsWithItsCaller(t *testing.T) {
	sleeps := func(ctx context.Context) error { time.Sleep(5 * time.Second); return ctx.Err() }
	inGroup(t, sleeps, func(t *testing.T, g *operations.Group) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		var first, second error
		err := g.Run(ctx, until(time.Minute, operations.Yielding), func(ctx context.Context) error {
			first = del(g, drivertest.SandboxNo(1))(ctx)
			second = ctx.Err()
			return second
		})
		drivertest.WantReason(t, err, reason.DELUnfinished)
		g.Wait()
		if first != nil || second == nil {
			t.Errorf("the call that ran: %v; a later one could begin: %v", first, second)
		}
	})
}

// TestStatusOfOtherNamespaces checks that plugins that hang for the networks of one namespace do not delay the STATUS of
// another's.
func TestStatusOfOtherNamespaces(t *testing.T) {
	var works atomic.Bool
	inGroup(t, func(ctx context.Context) error {
		if !works.Load() {
			<-ctx.Done()
		}
		return context.Cause(ctx)
	}, func(t *testing.T, g *operations.Group) {
		for range 10 * operations.Workers {
			go func() { _ = g.Status(t.Context(), "one", net1.Conflist) }()
		}
		synctest.Wait()
		works.Store(true)
		began := time.Now()
		if err := g.Status(t.Context(), "another", net1.Conflist); err != nil || time.Since(began) > 0 {
			t.Errorf("after %s: %v", time.Since(began), err)
		}
	})
}
