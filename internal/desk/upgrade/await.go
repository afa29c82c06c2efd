package upgrade

import (
	"context"
	"fmt"
	"time"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// await polls check until nothing is missing. After limit it returns an error with a
// code, and with what was missing. Transient errors of the API server do not end the
// wait. A dry run does not wait.
func (r *run) await(ctx context.Context, limit time.Duration, code reason.Code, check kube.Check) error {
	if r.DryRun != "" {
		return nil
	}
	err := kube.Await(ctx, r.Poll, limit, func(ctx context.Context) (missing string, err error) {
		missing, err = check(ctx)
		if err != nil && kube.Transient(err) {
			return err.Error(), nil
		}
		return missing, err
	})
	if kube.TimedOut(err) {
		return reason.Wrap(code, err)
	}
	return err
}

// persist calls do until the API server is available: an error that the API server's absence explains does not
// end it before limit. Nothing is lost by that, because do can be repeated. It returns an error with a code at
// once. where is for progress messages. A dry run does not wait.
func (r *run) persist(ctx context.Context, limit time.Duration, where string, do func(context.Context) error) error {
	var failed error
	err := kube.Await(ctx, r.Poll, limit, func(ctx context.Context) (missing string, err error) {
		again := failed != nil
		failed = do(ctx)
		if failed == nil || r.DryRun != "" || reason.Of(failed) != "" || !kube.Transient(failed) {
			return "", failed
		}
		if !again {
			r.Say("%s: trying again, because the API server is not available: %v", where, failed)
		}
		return failed.Error(), nil //nolint:nilerr // the wait goes on
	})
	if kube.TimedOut(err) {
		return failed
	}
	return err
}

// readError describes an error of reading an object named in the context, such as
// "node n1: cordon".
func readError(err error) error { return fmt.Errorf("reading it: %w", err) }
