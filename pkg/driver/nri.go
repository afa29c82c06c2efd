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

	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
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
	*parts
	successor *successor
	// waits is what the hooks of all pods together may wait.
	waits waitAllowance
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
		background.Sleep(ctx, pause)
		pause = min(2*pause, reconnectMax)
	}
	return nil
}

// serve serves one connection to the runtime, and returns why it has ended.
func (c *nriClient) serve(ctx context.Context) error {
	var connection stub.Stub
	connection, err := stub.New(&hooks{nriClient: c, limit: func() time.Duration { return connection.RequestTimeout() }},
		stub.WithPluginName("nadra"),
		stub.WithPluginIdx(nriIndex),
		stub.WithSocketPath(c.cfg.NRISocket),
		stub.WithLogger(nriLogger{klog.FromContext(ctx).WithName("nri")}),
		stub.WithFailurePolicy(&nri.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		return fmt.Errorf("making the NRI stub: %w", err)
	}
	stop := context.AfterFunc(ctx, connection.Stop)
	defer stop()
	if err := connection.Run(ctx); err != nil {
		return fmt.Errorf("serving NRI on %s: %w", c.cfg.NRISocket, err)
	}
	return errors.New("the runtime closed the NRI connection")
}

// hookBudget returns how long a hook may wait: as long as the administrator allows, and less
// than the runtime allows.
func hookBudget(allowed, requestTimeout time.Duration) time.Duration {
	return max(min(allowed, requestTimeout-attach.RollbackTime-replyTime), minBudget)
}
