package upgraderun

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

const mergePatch = types.MergePatchType

// The times of the Lease. Whoever was killed is followed when a newcomer has seen
// the Lease unchanged for leaseDuration; alive is how long a newcomer waits before
// it takes the holder for alive.
const (
	leaseDuration = 20 * time.Second
	renewDeadline = 15 * time.Second
	leaseRetry    = 2 * time.Second
	alive         = leaseDuration + 10*time.Second
)

// errLost says that the Lease could not be renewed.
var errLost = errors.New("the Lease could not be renewed for " + renewDeadline.String() + ": another may go on now")

// Alone calls do while nobody else carries an upgrade out. It waits for a Lease
// whose holder is gone, for longer than one lasts, and refuses where the holder
// is at work.
func (s Store) Alone(ctx context.Context, identity string, do func(context.Context) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	leading := make(chan context.Context, 1)
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta: metav1.ObjectMeta{Namespace: s.Namespace, Name: stateName}, Client: s.Kube.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: identity},
		},
		LeaseDuration: leaseDuration, RenewDeadline: renewDeadline, RetryPeriod: leaseRetry,
		ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(ctx context.Context) { leading <- ctx },
			OnStoppedLeading: func() { cancel(errLost) },
		},
	})
	if err != nil {
		return fmt.Errorf("preparing the Lease %s/%s: %w", s.Namespace, stateName, err)
	}
	electing, stop := context.WithCancel(context.WithoutCancel(ctx))
	ended := make(chan struct{})
	go func() { defer close(ended); elector.Run(electing) }()
	defer func() { stop(); <-ended }()
	select {
	case <-leading:
		err := do(ctx)
		if cause := context.Cause(ctx); errors.Is(cause, errLost) {
			return fmt.Errorf("%w (%w)", cause, errors.Join(err, ctx.Err()))
		}
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-time.After(alive):
		return fmt.Errorf("%s carries an upgrade out: wait for it, or kubectl nadra upgrade pause", elector.GetLeader())
	}
}
