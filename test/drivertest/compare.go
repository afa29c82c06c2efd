package drivertest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// Same fails the test if two values differ.
func Same[T any](t *testing.T, what string, want, got T) {
	t.Helper()
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", what, diff)
	}
}

// WantError fails the test unless the error has all of these parts.
func WantError(t *testing.T, err error, parts ...string) {
	t.Helper()
	for _, p := range parts {
		if err == nil || !strings.Contains(err.Error(), p) {
			t.Errorf("error lacks %q: %v", p, err)
		}
	}
}

// Once is for attaches that must not be repeated after a passing failure.
func Once(t *testing.T) func(err error, passing bool) (again bool) {
	return func(err error, passing bool) bool {
		if passing {
			t.Errorf("tried again after: %v", err)
		}
		return passing
	}
}

// WantReason fails the test unless the error has this code and all of these parts.
func WantReason(t *testing.T, err error, code reason.Code, parts ...string) {
	t.Helper()
	if got := reason.Of(err); got != code {
		t.Errorf("reason %q, want %q: %v", got, code, err)
	}
	WantError(t, err, parts...)
}

// WantReasonIn fails the test unless the text has this code and all of these parts.
func WantReasonIn(t *testing.T, text string, code reason.Code, parts ...string) {
	t.Helper()
	if got := reason.In(text); got != code {
		t.Errorf("reason %q, want %q: %s", got, code, text)
	}
	for _, p := range parts {
		if !strings.Contains(text, p) {
			t.Errorf("text lacks %q: %s", p, text)
		}
	}
}
