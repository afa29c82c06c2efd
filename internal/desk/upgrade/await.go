package upgrade

import (
	"context"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// dryRun is "server" if the API server only checks what would be written, "client" if
// nothing is sent, and empty for a real run.
type dryRun string

// options returns the option DryRun of API requests.
func (d dryRun) options() []string {
	if d == "server" {
		return []string{metav1.DryRunAll}
	}
	return nil
}

// write calls do, unless the dry run is the client's.
func (d dryRun) write(do func() error) error {
	if d == "client" {
		return nil
	}
	return do()
}

// env is what the parts of a run share.
type env struct {
	kube kubernetes.Interface
	dry  dryRun
	// poll is the time between two checks of a wait.
	poll time.Duration
	// say reports progress.
	say func(format string, args ...any)
}

// await polls check until nothing is missing. After limit it returns an error with a
// code, and with what was missing. Transient errors of the API server do not end the
// wait. A dry run does not wait.
func (e env) await(ctx context.Context, limit time.Duration, code reason.Code, check kube.Check) error {
	if e.dry != "" {
		return nil
	}
	err := kube.Await(ctx, e.poll, limit, func(ctx context.Context) (missing string, err error) {
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
func (e env) persist(ctx context.Context, limit time.Duration, where string, do func(context.Context) error) error {
	var failed error
	err := kube.Await(ctx, e.poll, limit, func(ctx context.Context) (missing string, err error) {
		again := failed != nil
		failed = do(ctx)
		if failed == nil || e.dry != "" || reason.Of(failed) != "" || !kube.Transient(failed) {
			return "", failed
		}
		if !again {
			e.say("%s: trying again, because the API server is not available: %v", where, failed)
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
