package kube

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/wait"
)

// Check describes what is missing, or returns an empty string if nothing is.
type Check = func(context.Context) (missing string, err error)

// timeoutError is the error of a wait that took too long.
type timeoutError struct {
	limit   time.Duration
	missing string
}

func (e *timeoutError) Error() string { return fmt.Sprintf("after %s: %s", e.limit, e.missing) }

// TimedOut reports whether Await gave up because its limit was over.
func TimedOut(err error) bool {
	var e *timeoutError
	return errors.As(err, &e)
}

// Await calls check, every interval, until nothing is missing. It returns check's error at
// once. After limit, or if ctx ends, it returns an error with what was missing.
func Await(ctx context.Context, interval, limit time.Duration, check Check) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	var missing string
	var failed error
	err := wait.PollUntilContextCancel(limited, interval, true, func(context.Context) (bool, error) {
		missing, failed = check(ctx) // which is not cut short by the limit
		return missing == "", failed
	})
	switch {
	case failed != nil || err == nil:
		return failed
	case ctx.Err() != nil:
		return fmt.Errorf("%w, while %s", ctx.Err(), missing)
	}
	return &timeoutError{limit, missing}
}

// Transient reports whether a request may succeed when it is repeated: the API server, or
// the way to it, was unavailable.
func Transient(err error) bool {
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
