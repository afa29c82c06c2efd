package cniexec

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// reader is a plugin that records that it runs and that it has read its input.
const reader = `touch $DIR/runs; cat >$DIR/config.part; touch $DIR/read; echo '` + result + `'`

// started waits for a plugin's process, and fails should it have its input.
func (w *world) started(t *testing.T) {
	for start := time.Now(); !w.has("runs"); {
		if time.Since(start) > time.Minute {
			t.Error("the plugin was not started")
			return
		}
		time.Sleep(time.Millisecond)
	}
	if w.has("read") {
		t.Error("the plugin has its configuration already")
	}
}

// endOnceBegun returns a context for a plugin that writes $DIR/begun: it ends
// then, with a cause, and so never before the plugin's process is there.
func (w *world) endOnceBegun(t *testing.T, cause error) context.Context {
	t.Helper()
	ctx, end := context.WithCancelCause(t.Context())
	go func() {
		for !w.has("begun") && ctx.Err() == nil {
			time.Sleep(time.Millisecond)
		}
		end(cause)
	}()
	return ctx
}

func (w *world) has(file string) bool {
	_, err := os.Stat(filepath.Join(w.dir, file))
	return err == nil
}

// The plugin's process starts meanwhile, and its input comes after.
func TestWorkIsDoneWhileThePluginStarts(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", reader)
	w.plugin(t, "q", `echo '`+result+`'`)
	done := 0
	if _, err := w.Add(t.Context(), sandbox, conflist("p", "q"), func() error { w.started(t); done++; return nil }); err != nil {
		t.Fatal(err)
	}
	if config, err := os.ReadFile(filepath.Join(w.dir, "config.part")); err != nil || len(config) == 0 || done != 1 {
		t.Errorf("the plugin was given %q (%v), the work was done %d times", config, err, done)
	}
}

// When it fails the plugin ends without having read so much as the end of its
// input.
func TestWorkThatFailsKeepsThePluginFromItsInput(t *testing.T) {
	w := newWorld(t)
	w.plugin(t, "p", reader)
	full := errors.New("no space left on device")
	_, err := w.Add(t.Context(), sandbox, conflist("p"), func() error { w.started(t); return full })
	if !errors.Is(err, full) {
		t.Errorf("error %v, want %v", err, full)
	}
	if w.has("read") {
		t.Error("the plugin has read its input")
	}
	if left, err := filepath.Glob(filepath.Join(w.dir, "cache", "results", "*")); err != nil || len(left) > 0 {
		t.Errorf("in libcni's cache: %q (%v)", left, err)
	}
}

// Also when there is no plugin to start, the work has ended when Add does.
func TestWorkIsDoneWithoutAPlugin(t *testing.T) {
	w, done := newWorld(t), false
	_, err := w.Add(t.Context(), sandbox, conflist("nothing"), func() error { time.Sleep(20 * time.Millisecond); done = true; return nil })
	if err == nil || !done {
		t.Errorf("error %v, done %t", err, done)
	}
}
