package driver

import (
	"context"
	"errors"
	"fmt"
	"time"

	nri "github.com/containerd/nri/pkg/api"
	"github.com/containerd/nri/pkg/stub"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/attach"
)

const (
	// nriIndex orders us among NRI plugins: late, so that others have spoken.
	nriIndex = "90"
	// reconnectMin and reconnectMax bound the pause before the next attempt to
	// reach the runtime. Until it succeeds Prepare waits and no pod of ours starts.
	reconnectMin = 100 * time.Millisecond
	reconnectMax = 5 * time.Second
	// replyTime is kept from the runtime's request timeout for the answer.
	// Beyond the timeout the runtime would drop us and start the pod without
	// its networks: NRI fails open.
	replyTime = 100 * time.Millisecond
	// minBudget is for a runtime with a request timeout that leaves nothing.
	minBudget = 50 * time.Millisecond
)

// runNRI keeps the connection to the runtime until ctx ends.
func (d *Driver) runNRI(ctx context.Context) error {
	pause := reconnectMin
	for ctx.Err() == nil {
		started := time.Now()
		reason := d.serveNRI(ctx)
		d.runtime.lost(reason)
		if time.Since(started) > reconnectMax {
			pause = reconnectMin
		}
		if ctx.Err() == nil {
			klog.FromContext(ctx).Error(reason, "Lost the container runtime's NRI; pods with claims wait until it is back", "retryIn", pause)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause):
		}
		pause = min(2*pause, reconnectMax)
	}
	return nil
}

// serveNRI serves one connection to the runtime.
func (d *Driver) serveNRI(ctx context.Context) error {
	h := &hooks{d: d, attachWait: d.cfg.AttachWait}
	m := &measuredHooks{hooks: h}
	s, err := stub.New(m,
		stub.WithPluginName("nadra"),
		stub.WithPluginIdx(nriIndex),
		stub.WithSocketPath(d.cfg.NRISocket),
		stub.WithLogger(nriLogger{klog.FromContext(ctx).WithName("nri")}),
		stub.WithFailurePolicy(&nri.FailurePolicy{FailRequest: true, KeepConnected: true}),
	)
	if err != nil {
		return fmt.Errorf("making the NRI stub: %w", err)
	}
	m.limit = s.RequestTimeout
	h.budget = func() time.Duration { return hookBudget(d.cfg.HookBudget, s.RequestTimeout()) }
	stop := context.AfterFunc(ctx, s.Stop)
	defer stop()
	if err := s.Run(ctx); err != nil {
		return fmt.Errorf("serving NRI on %s: %w", d.cfg.NRISocket, err)
	}
	return errors.New("the runtime closed the NRI connection")
}

// hookBudget is how long a hook may wait: what the operator allows, and less
// than what the runtime does.
func hookBudget(allowed, requestTimeout time.Duration) time.Duration {
	return max(min(allowed, requestTimeout-attach.RollbackTime-replyTime), minBudget)
}
