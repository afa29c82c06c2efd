package cluster

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// TestKey changes everything that a component is made from, one at a time.
func TestKey(t *testing.T) {
	dir := t.TempDir()
	source := filepath.Join(dir, "go.mod")
	key := func(content string, salt ...string) string {
		t.Helper()
		if err := os.WriteFile(source, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		r := recipe{name: "x", salt: salt, inputs: []string{source}}
		if err := r.prepare(); err != nil {
			t.Fatal(err)
		}
		return r.key
	}
	base := key("a", "go1", "-s")
	if again := key("a", "go1", "-s"); again != base {
		t.Error("the same inputs give another key")
	}
	for name, other := range map[string]string{
		"content":         key("b", "go1", "-s"),
		"flags":           key("a", "go1", "-w"),
		"joint arguments": key("a", "go1-s"),
		"fewer arguments": key("a", "go1"),
	} {
		if other == base {
			t.Errorf("other %s give the same key", name)
		}
	}
}

// TestInterruptedBuild fails a build half-way.
func TestInterruptedBuild(t *testing.T) {
	cache := t.TempDir()
	broken := errors.New("broken")
	fail := true
	r := recipe{name: "x", cook: func(_ context.Context, into string, _ *step) error {
		if err := os.WriteFile(filepath.Join(into, "program"), nil, 0o600); err != nil {
			return err
		}
		if fail {
			return broken
		}
		return nil
	}}
	if err := r.build(t.Context(), cache, io.Discard); !errors.Is(err, broken) {
		t.Fatalf("building gives %v", err)
	}
	if r.done(cache) {
		t.Error("a half-built component counts as built")
	}
	fail = false
	if err := r.build(t.Context(), cache, io.Discard); err != nil {
		t.Fatal(err)
	}
	if !r.done(cache) {
		t.Error("a built component does not count as built")
	}
	entries, err := os.ReadDir(cache)
	if err != nil || len(entries) != 1 {
		t.Errorf("the cache has %v (%v), want only the result", entries, err)
	}
}
