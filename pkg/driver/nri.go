package driver

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
)

const (
	// nriIndex orders nadra among NRI plugins: late, after most others.
	nriIndex = "90"
	// reconnectMin and reconnectMax limit the pause before the next try to connect to the
	// runtime. Until it succeeds, Prepare waits and no pod with claims starts.
	// Pods without a claim start bare meanwhile.
	reconnectMin = 10 * time.Millisecond
	reconnectMax = 5 * time.Second
	// replyTime is the part of the runtime's request timeout that is left for the answer.
	// After the timeout the runtime would drop nadra and start the pod without its networks:
	// NRI fails open.
	replyTime = 100 * time.Millisecond
	// minBudget is the budget if the runtime's request timeout leaves nothing.
	minBudget = 50 * time.Millisecond
)

// nriClient connects the hooks to the container runtime.
type nriClient struct {
	hookParts
	socket string
	// hookBudget is the setting of the same name.
	hookBudget time.Duration
	// takeOver makes another driver hand over within a time. It returns nil if this one has
	// the state directory.
	takeOver func(ctx context.Context, within time.Duration) error
	// begun is true once run was called.
	begun atomic.Bool
}

// run connects to the runtime, and again after every lost connection, until ctx ends.
func (c *nriClient) run(ctx context.Context) error {
	c.begun.Store(true)
	pause := reconnectMin
	for ctx.Err() == nil {
		started := time.Now()
		err := c.serve(ctx)
		c.runtime.lost(err)
		if time.Since(started) > reconnectMax {
			pause = reconnectMin
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(err, "Lost the container runtime's NRI; pods with claims wait until it is back", "retryAfter", pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMax)
	}
	return nil
}

// serve serves one connection to the runtime, and returns why it has ended.
func (c *nriClient) serve(ctx context.Context) error {
	var connection stub.Stub
	limit := func() time.Duration { return connection.RequestTimeout() }
	h := &hooks{hookParts: c.hookParts, budget: func() time.Duration { return hookBudget(c.hookBudget, limit()) }}
	connection, err := stub.New(&measuredHooks{hooks: h, limit: limit, takeOver: c.takeOver},
		stub.WithPluginName("nadra"),
		stub.WithPluginIdx(nriIndex),
		stub.WithSocketPath(c.socket),
		stub.WithLogger(nriLogger{klog.FromContext(ctx).WithName("nri")}),
		stub.WithFailurePolicy(&nri.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		return fmt.Errorf("making the NRI stub: %w", err)
	}
	stop := context.AfterFunc(ctx, connection.Stop)
	defer stop()
	if err := connection.Run(ctx); err != nil {
		return fmt.Errorf("serving NRI on %s: %w", c.socket, err)
	}
	return errors.New("the runtime closed the NRI connection")
}

// hookBudget returns how long a hook may wait: as long as the administrator allows, and less
// than the runtime allows.
func hookBudget(allowed, requestTimeout time.Duration) time.Duration {
	return max(min(allowed, requestTimeout-attach.RollbackTime-replyTime), minBudget)
}

// measuredHooks measures how long the runtime waits for hooks. NRI subscribes by the methods, so
// it has the same methods as hooks.
type measuredHooks struct {
	*hooks
	// limit returns the runtime's limit for a request, which is known once it has connected.
	limit func() time.Duration
	// takeOver is nriClient's.
	takeOver func(ctx context.Context, within time.Duration) error
}

// done measures a call that has returned.
func (m *measuredHooks) done(event string, started time.Time) {
	m.metrics.Hooked(event, time.Since(started), m.limit())
}

// Synchronize takes over from another driver, calls the hook, records the runtime's limit, and
// measures the call. containerd runs nothing else while it synchronises a plugin, so this is the
// moment at which no event can be lost: the driver before has had all earlier ones, and this one
// gets all later ones. An error makes the runtime drop this connection, and the driver before
// goes on.
func (m *measuredHooks) Synchronize(ctx context.Context, pods []*nri.PodSandbox, containers []*nri.Container) ([]*nri.ContainerUpdate, error) {
	defer m.done(metrics.Synchronize, time.Now())
	if err := m.takeOver(ctx, m.limit()-syncMargin); err != nil {
		return nil, err
	}
	m.runtime.setLimit(m.limit())
	m.metrics.Connected()
	return m.hooks.Synchronize(ctx, pods, containers)
}

// RunPodSandbox calls the hook and measures the call.
func (m *measuredHooks) RunPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.RunPodSandbox, time.Now())
	return m.hooks.RunPodSandbox(ctx, pod)
}

// CreateContainer calls the hook and measures the call.
func (m *measuredHooks) CreateContainer(ctx context.Context, pod *nri.PodSandbox, container *nri.Container) (*nri.ContainerAdjustment, []*nri.ContainerUpdate, error) {
	defer m.done(metrics.CreateContainer, time.Now())
	return m.hooks.CreateContainer(ctx, pod, container)
}

// StopPodSandbox calls the hook and measures the call.
func (m *measuredHooks) StopPodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.StopPodSandbox, time.Now())
	return m.hooks.StopPodSandbox(ctx, pod)
}

// RemovePodSandbox calls the hook and measures the call.
func (m *measuredHooks) RemovePodSandbox(ctx context.Context, pod *nri.PodSandbox) error {
	defer m.done(metrics.RemovePodSandbox, time.Now())
	return m.hooks.RemovePodSandbox(ctx, pod)
}
