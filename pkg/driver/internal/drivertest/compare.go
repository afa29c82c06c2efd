package drivertest

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
