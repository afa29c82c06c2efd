package main

import (
	"testing"

	"github.com/nadra-dev/nadra/test/flagtable"
)

// TestReference compares docs/reference/flags.md with the controller's flags.
func TestReference(t *testing.T) {
	flagtable.Check(t, "nadra-controller", new(options).flags())
}
