package cluster

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// TestProcess follows a process from its start to its end.
func TestProcess(t *testing.T) {
	cmd := exec.Command("sleep", "60")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go cmd.Wait() //nolint:errcheck // it is killed
	p, err := identify(strconv.Itoa(cmd.Process.Pid))
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "sleep.pid")
	if err := p.write(file); err != nil {
		t.Fatal(err)
	}
	if read, err := readProcess(file); err != nil || read != p {
		t.Errorf("reading %v (%v), want %v", read, err, p)
	}
	recycled := p
	recycled.started = "1"
	if recycled.alive() || !errors.Is(recycled.signal(unix.SIGKILL), errNotRunning) {
		t.Error("another process with the same PID counts as the process")
	}
	if !p.alive() {
		t.Error("it is not alive")
	}
	if err := p.end(t.Context(), unix.SIGTERM, 10*time.Second); err != nil {
		t.Fatal(err)
	}
	if p.alive() {
		t.Error("it is still alive")
	}
	if err := p.end(t.Context(), unix.SIGTERM, time.Second); err != nil {
		t.Errorf("ending it again: %v", err)
	}
}

// TestLockFolder removes the folder as the lock's owner, as Stop does.
func TestLockFolder(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "run")
	unlock, err := lockFolder(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	short, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := lockFolder(short, dir); err == nil {
		t.Fatal("the lock is given twice")
	}
	second := make(chan error, 1)
	go func() {
		unlock, err := lockFolder(t.Context(), dir)
		if err == nil {
			unlock()
		}
		second <- err
	}()
	if err := os.Remove(dir); err != nil {
		t.Fatal(err)
	}
	unlock()
	if err := <-second; err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(dir); err != nil {
		t.Errorf("the lock is for a folder that is gone: %v", err)
	}
}

func TestTogetherReturnsTheFirstError(t *testing.T) {
	first := errors.New("first")
	err := together(t.Context(),
		func(context.Context) error { return first },
		func(ctx context.Context) error {
			<-ctx.Done()
			return ctx.Err()
		})
	if !errors.Is(err, first) {
		t.Errorf("together gives %v, want the cause of it all", err)
	}
}

func stat(t *testing.T, path string) os.FileInfo {
	t.Helper()
	info, err := os.Stat(path)
	if err != nil {
		t.Fatal(err)
	}
	return info
}

func readText(t *testing.T, path string) string {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}
