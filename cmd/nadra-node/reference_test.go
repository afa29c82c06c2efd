package main

import (
	"errors"
	"testing"

	"github.com/nadra-dev/nadra/test/flagtable"
)

// TestReference compares docs/reference/flags.md with the driver's flags.
func TestReference(t *testing.T) {
	_, err := parse([]string{"-h"})
	var help *helpRequest
	if !errors.As(err, &help) {
		t.Fatalf("parsing -h: %v, want a request for help", err)
	}
	flagtable.Check(t, "nadra-node", help.flags)
}
