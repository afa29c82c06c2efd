package upgraderun

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
)

// await waits until a look finds nothing missing any more. When it does not,
// the error says what was missing. What the API server does not answer now it may
// the next time.
func (r *Runner) await(ctx context.Context, limit time.Duration, look func(context.Context) (missing string, err error)) error {
	if r.DryRun != "" {
		return nil
	}
	end := time.Now().Add(limit)
	for {
		missing, err := look(ctx)
		if err != nil && passing(err) {
			missing, err = err.Error(), nil
		}
		if err != nil || missing == "" {
			return err
		}
		if time.Now().After(end) {
			return fmt.Errorf("after %s: %s", limit, missing)
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("%w, while %s", ctx.Err(), missing)
		case <-time.After(r.Poll):
		}
	}
}

// passing says of an error that the API server, or the way to it, was not well: a
// replica that restarts, a new leader of etcd, too many requests.
func passing(err error) bool {
	for _, is := range []func(error) bool{
		utilnet.IsConnectionRefused, utilnet.IsConnectionReset, utilnet.IsProbableEOF, utilnet.IsHTTP2ConnectionLost, utilnet.IsTimeout,
		apierrors.IsInternalError, apierrors.IsServerTimeout, apierrors.IsTimeout, apierrors.IsServiceUnavailable, apierrors.IsTooManyRequests,
	} {
		if is(err) {
			return true
		}
	}
	return false
}
