package kube

import (
	"context"
	"errors"
	"net"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func TestAwait(t *testing.T) {
	broken := errors.New("broken")
	for name, tt := range map[string]struct {
		check  func(n int) (string, error)
		cancel time.Duration // when the caller's context ends
		want   string
		calls  int
	}{
		"nothing missing": {func(int) (string, error) { return "", nil }, time.Hour, "", 1},
		"comes later":     {func(n int) (string, error) { return []string{"a", "b", ""}[n], nil }, time.Hour, "", 3},
		"never comes":     {func(int) (string, error) { return "the pod", nil }, time.Hour, "after 10.5s: the pod", 11},
		"cancelled":       {func(int) (string, error) { return "the pod", nil }, 2500 * time.Millisecond, "context canceled, while the pod", 3},
		"fails":           {func(int) (string, error) { return "", broken }, time.Hour, "broken", 1},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				time.AfterFunc(tt.cancel, cancel)
				calls := 0
				err := Await(ctx, time.Second, 10500*time.Millisecond, func(context.Context) (string, error) {
					calls++
					return tt.check(calls - 1)
				})
				if tt.want == "" && err != nil || tt.want != "" && (err == nil || err.Error() != tt.want) || calls != tt.calls {
					t.Errorf("error %v after %d calls, want %q after %d", err, calls, tt.want, tt.calls)
				}
				if got := TimedOut(err); got != (name == "never comes") {
					t.Errorf("TimedOut(%v) = %t", err, got)
				}
			})
		})
	}
}

func TestTransient(t *testing.T) {
	for name, tt := range map[string]struct {
		err  error
		want bool
	}{
		"refused":   {&net.OpError{Op: "dial", Err: syscall.ECONNREFUSED}, true},
		"internal":  {apierrors.NewInternalError(errors.New("etcdserver: leader changed")), true},
		"busy":      {apierrors.NewTooManyRequests("wait", 1), true},
		"forbidden": {apierrors.NewForbidden(corev1.Resource("pods"), "", errors.New("no")), false},
		"not found": {apierrors.NewNotFound(corev1.Resource("pods"), "p"), false},
	} {
		if got := Transient(tt.err); got != tt.want {
			t.Errorf("%s: %t, want %t", name, got, tt.want)
		}
	}
}
