//go:build e2e

package upgrade

import (
	"bytes"
	"errors"
	"os/exec"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/desk/cli"
	"github.com/nadra-dev/nadra/test/lab"
)

// runUntil runs a command and ends it by a signal as soon as its output contains one of some texts.
func (f *fixture) runUntil(printed []string, signal unix.Signal, args ...string) {
	f.Helper()
	c := f.begun(printed, args...)
	if !c.hasPrinted() {
		f.Fatalf("upgrade %s has ended before it printed one of %q: %v\n%s", strings.Join(args, " "), printed, c.err, c)
	}
	f.Must(c.cmd.Process.Signal(signal))
	<-c.ended
	if signal == unix.SIGINT && c.code() != cli.CodeInterrupted {
		f.Errorf("upgrade %s, interrupted: %v, want exit code %d\n%s", strings.Join(args, " "), c.err, cli.CodeInterrupted, c)
	}
	f.Logf("upgrade %s, ended by %s after %q:\n%s", strings.Join(args, " "), signal, printed[0], c)
}

// command is a command of kubectl nadra upgrade that runs.
type command struct {
	*watcher
	cmd *exec.Cmd
	// ended is closed when the command has ended with err.
	ended chan struct{}
	err   error
}

// begun starts a command, and returns when it has printed one of some texts or has ended.
func (f *fixture) begun(printed []string, args ...string) *command {
	f.Helper()
	machine := f.Cluster.ControlPlane()
	binary := lab.Built("kubectl-nadra")
	c := &command{
		watcher: &watcher{until: printed, heard: make(chan struct{})},
		cmd:     machine.Command(f.Ctx, binary, append([]string{"upgrade", "--kubeconfig", f.Cluster.Kubeconfig()}, args...)...),
		ended:   make(chan struct{}),
	}
	c.cmd.Stdout, c.cmd.Stderr = c.watcher, c.watcher
	go func() {
		defer close(c.ended)
		c.err = machine.Run(c.cmd)
	}()
	select {
	case <-c.heard:
	case <-c.ended:
	}
	return c
}

// hasPrinted reports whether the command has printed a text that it was watched for.
func (c *command) hasPrinted() bool {
	select {
	case <-c.heard:
		return true
	default:
		return false
	}
}

// code returns the exit code of a command that has ended, or -1 for one that was killed.
func (c *command) code() int {
	<-c.ended
	var exit *exec.ExitError
	switch {
	case c.err == nil:
		return 0
	case errors.As(c.err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// watcher closes heard when one of some texts was written.
type watcher struct {
	until []string
	heard chan struct{}
	once  sync.Once
	mu    sync.Mutex
	text  bytes.Buffer
}

func (w *watcher) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	n, err := w.text.Write(b)
	if slices.ContainsFunc(w.until, func(text string) bool { return strings.Contains(w.text.String(), text) }) {
		w.once.Do(func() { close(w.heard) })
	}
	return n, err
}

func (w *watcher) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}
