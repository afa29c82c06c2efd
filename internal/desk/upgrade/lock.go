package upgrade

import (
	"context"
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const mergePatch = types.MergePatchType

// The times of the Lease. A holder that was killed is replaced when another process has
// seen the Lease unchanged for leaseDuration. After alive, a waiting process takes the
// holder for alive.
const (
	leaseDuration = 20 * time.Second
	renewDeadline = 15 * time.Second
	leaseRetry    = 2 * time.Second
	alive         = leaseDuration + 10*time.Second
)

// errLost means that the Lease could not be renewed.
var errLost = reason.Errorf(reason.LeaseLost, "the Lease could not be renewed for %s, so another process may continue the upgrade: "+
	"run kubectl nadra upgrade resume when the API server is available", renewDeadline)

// Alone calls do while no other process carries out an upgrade. It waits until the Lease
// of a holder that is gone expires, and refuses if the holder renews it.
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
		if elector.GetLeader() == "" { // it was never read
			return reason.Errorf(reason.LeaseLost, "the Lease %s/%s could not be read for %s: run the command again when the API server is available", s.Namespace, stateName, alive)
		}
		return reason.Errorf(reason.UpgradeRunning, "%s carries out an upgrade: wait for it, or stop it with kubectl nadra upgrade pause", elector.GetLeader())
	}
}
