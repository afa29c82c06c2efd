package main

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/nadra-dev/nadra/test/flagtable"
)

// TestReference compares docs/reference/flags.md with the gate's help. CDI specs that an earlier version has written
// name its arguments.
func TestReference(t *testing.T) {
	file, err := os.Create(filepath.Join(t.TempDir(), "help"))
	if err != nil {
		t.Fatal(err)
	}
	before := os.Stderr
	os.Stderr = file
	err = run([]string{"-h"}, nil)
	os.Stderr = before
	if !errors.Is(err, flag.ErrHelp) {
		t.Fatalf("running -h: %v, want a request for help", err)
	}
	help, err := os.ReadFile(file.Name())
	if err != nil {
		t.Fatal(err)
	}
	flagtable.CheckPart(t, "flags of nadra-gate", "\n```text\n"+string(help)+"```\n\n")
}
