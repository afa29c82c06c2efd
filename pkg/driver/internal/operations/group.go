package operations

import (
	"cmp"
	"context"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

// Manner determines what an operation waits for, and what waits for it.
type Manner int

const (
	// Waited is the manner of operations that a pod, the kubelet or the runtime waits for. Their
	// calls of plugins wait for nobody: each pod has one at a time.
	Waited Manner = iota
	// Behind is the manner of operations that nobody waits for: their calls of a plugin are run by
	// the plugin's few workers.
	Behind
	// Yielding is the same for operations that end as soon as another one wants the pod. They
	// begin no call after that, or after the end of their caller's context.
	Yielding
)

// ErrGoesFirst ends an operation that yields.
var ErrGoesFirst = reason.Errorf(reason.AttachCancelled, "another operation on the pod goes first")

// Operation describes an operation on a pod.
type Operation struct {
	Pod attachment.PodRef
	// Sandbox is the ID of the sandbox, which is locked if the pod's UID is unknown.
	Sandbox string
	// Limit ends the operation, with the cause Over.
	Limit time.Duration
	Over  error
	// Manner is Waited if it is not set.
	Manner Manner
	// Detaching is true for operations that Detaches counts.
	Detaching bool
}

// id returns what the operation locks.
func (o Operation) id() string { return cmp.Or(o.Pod.UID, o.Sandbox) }

// Group runs the operations of a driver. When the driver stops, running operations have some time to
// end. Make it with New.
type Group struct {
	*background.Group
	// Plugins runs the plugins' processes. Callers call the methods of Group.
	Plugins
	limits Limits
	pods   *locks // by UID of the pod, or ID of a sandbox without one
	// workers is by a namespace and the plugins, quick and slow by the plugins.
	workers, quick, slow *locks
	detaches             inFlight
}

// samePlugins is what a call waits for.
const samePlugins = "other calls of the same plugins"

// New returns a Group without operations. Its goroutines have the values of ctx, and end by Cancel.
func New(ctx context.Context, plugins Plugins, limits Limits) *Group {
	return &Group{
		Group: background.NewGroup(context.WithoutCancel(ctx)), Plugins: plugins, limits: limits,
		pods: newLocks(1, "another operation on the pod"), workers: newLocks(Workers, samePlugins),
		quick: newLocks(quickWorkers, samePlugins), slow: newLocks(slowWorkers, samePlugins),
	}
}

// Lock waits for the lock of a pod, for work that calls no plugins, and returns the function that
// releases it.
func (g *Group) Lock(ctx context.Context, podUID string) (unlock func(), err error) {
	return g.pods.lock(ctx, podUID)
}

// holding is the key of the operation in its context.
type holding struct{}

// Do runs an operation in the calling goroutine, which Go has started or whose end the driver waits
// for. do gets a context that ends with the operation's limit.
func (g *Group) Do(ctx context.Context, op Operation, do func(context.Context) error) error {
	ctx, cancel := context.WithTimeoutCause(ctx, op.Limit, op.Over)
	defer cancel()
	if op.Detaching {
		defer g.detaches.begin(op.Limit)()
	}
	var unlock func()
	var err error
	if op.Manner == Yielding {
		ctx, unlock, err = g.pods.lockYielding(ctx, op.id())
	} else {
		unlock, err = g.pods.lock(ctx, op.id())
	}
	if err != nil {
		return err
	}
	defer unlock()
	return do(context.WithValue(ctx, holding{}, op))
}

// Run runs an operation in a goroutine of the group, and waits for its end. If ctx ends first, Run
// returns an error, and the operation goes on: a yielding one with the call that runs, and others
// until they are done.
func (g *Group) Run(ctx context.Context, op Operation, do func(context.Context) error) error {
	done := make(chan error, 1)
	g.Go(func(own context.Context) {
		if op.Manner == Yielding {
			own = ctx
		}
		done <- g.Do(WithPod(own, op.Pod), op, do)
	})
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return reason.Errorf(reason.DELUnfinished, "waiting for its DELs, which continue: %w", context.Cause(ctx))
	}
}

// Detaches counts the operations that detach.
func (g *Group) Detaches(now time.Time) metrics.Queue { return g.detaches.queue(now) }

// held returns the operation of a context if it has the lock of a sandbox's pod. Otherwise another
// operation could run on the same sandbox, which the CNI specification forbids.
func held(ctx context.Context, s attachment.Sandbox) (Operation, error) {
	op, found := ctx.Value(holding{}).(Operation)
	if id := (Operation{Pod: s.Pod, Sandbox: s.ID}).id(); !found || op.id() != id {
		return op, fmt.Errorf("calling a plugin for sandbox %s without the lock of pod %s: this is a bug of nadra", s.ID, s.Pod)
	}
	return op, nil
}
