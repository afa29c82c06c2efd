package cniexec

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/containernetworking/cni/pkg/types"
	"github.com/containernetworking/cni/pkg/version"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const (
	// busyRetry is the pause between attempts while a plugin's binary is being
	// written ("text file busy").
	busyRetry = 50 * time.Millisecond
	// busyLimit is the time after which these attempts end.
	busyLimit = 5 * time.Second
	// pipeWait limits the wait for output after a plugin has ended: a process that left
	// the group may keep the pipe open.
	pipeWait = 200 * time.Millisecond
	// endWait is the time that a plugin has after SIGTERM to release a lock or an
	// address before it is killed.
	endWait = time.Second
	// maxStdout and maxStderr limit the bytes that are kept of a plugin's output. A result has some KB.
	maxStdout, maxStderr = 1 << 20, 64 << 10
	// maxQuoted limits the part of a plugin's output in an error.
	maxQuoted = 1024
)

// hostExec starts plugins for libcni (invoke.Exec).
type hostExec struct {
	version.PluginDecoder
	root string
	// ran is Options.Ran.
	ran func(plugin, verb string, took time.Duration)
	// held is the work that the plugins' input waits for, or nil.
	held *held
	// gone is true if the sandbox's network namespace is gone; see nothingLeft.
	gone bool
	// kept is the sandbox's network namespace, which plugins get at keptPath, or nil if
	// the namespace has a path of its own.
	kept *os.File
	// path is the path at which the sandbox's network namespace was, if nothing is there any more; see withPath.
	path string
}

// keptPath is the path of the first file that a plugin inherits. The plugins that it
// starts inherit the file, too.
const keptPath = "/proc/self/fd/3"

// ExecPlugin runs one plugin until it ends or ctx does. When ctx ends, it sends SIGTERM to
// the plugin's process group, and SIGKILL soon after. The error is the plugin's own, with
// its CNI code, if the plugin returned one, and otherwise has the plugin's output. libcni
// adds the plugin's name.
//
// ExecPlugin lets a plugin print without end, but keeps the beginning only, and refuses a result that is longer.
func (e *hostExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	start := time.Now()
	environ = e.withPath(filepath.Base(path), stdin, environ)
	stdout, stderr, err := e.run(ctx, path, stdin, environ)
	for errors.Is(err, syscall.ETXTBSY) && time.Since(start) < busyLimit && pause(ctx, busyRetry) {
		stdout, stderr, err = e.run(ctx, path, stdin, environ)
	}
	if e.ran != nil {
		e.ran(filepath.Base(path), verbOf(environ), time.Since(start))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &noAnswer{fmt.Errorf("ended after %s: %w%s",
			time.Since(start).Round(time.Millisecond), causeOf(ctx), quoted("stderr", stderr.Kept))}
	case err != nil:
		err = pluginError(err, stdout.Kept, stderr.Kept)
		if e.gone && nothingLeft(filepath.Base(path), err) {
			return nil, nil
		}
		return nil, err
	}
	// The result is used for ADD only.
	if verbOf(environ) == "ADD" && (stdout.Cut || !json.Valid(stdout.Kept)) {
		what := "is not JSON"
		if stdout.Cut {
			what = fmt.Sprintf("has more than %d bytes", maxStdout)
		}
		return nil, &noAnswer{fmt.Errorf("it succeeded but its result %s%s%s", what, quoted("stdout", stdout.Kept), quoted("stderr", stderr.Kept))}
	}
	return stdout.Kept, nil
}

// causeOf returns why a context has ended. An expired time limit has the code
// PluginTimeout, unless the caller gave another cause.
func causeOf(ctx context.Context) error {
	if err := context.Cause(ctx); !errors.Is(err, context.DeadlineExceeded) {
		return err
	}
	return reason.Errorf(reason.PluginTimeout, "the time limit has expired: %w", context.DeadlineExceeded)
}

// verbOf returns CNI's verb in a plugin's environment.
func verbOf(environ []string) string {
	for _, v := range environ {
		if verb, is := strings.CutPrefix(v, "CNI_COMMAND="); is {
			return verb
		}
	}
	return ""
}

// run starts a plugin and waits for it, as ExecPlugin does, without a retry.
func (e *hostExec) run(ctx context.Context, path string, stdin []byte, environ []string) (stdout, stderr *words.Buffer, err error) {
	stdout, stderr = &words.Buffer{Limit: maxStdout}, &words.Buffer{Limit: maxStderr}
	c := exec.Command(path)
	c.Dir = "/"
	c.Env = environ
	c.Stdin, c.Stdout, c.Stderr = bytes.NewReader(stdin), stdout, stderr
	if e.held != nil {
		c.Stdin = e.held.input(stdin, func() { signal(c, syscall.SIGKILL) })
	}
	if e.kept != nil {
		c.ExtraFiles = []*os.File{e.kept}
	}
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	if e.root != "/" {
		c.SysProcAttr.Chroot = e.root
	}
	c.WaitDelay = pipeWait
	if err := c.Start(); err != nil {
		return stdout, stderr, err
	}
	ended := endWith(ctx, c)
	err = c.Wait()
	ended()
	leftBehind.collect(c.Process.Pid, ctx.Err() != nil)
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		err = nil // the plugin succeeded and left a daemon that keeps the pipe open
	}
	return stdout, stderr, err
}

// endWith ends a plugin when ctx does. The caller calls the returned function when the
// plugin has ended; if ctx has ended, too, it kills the rest of the process group.
func endWith(ctx context.Context, c *exec.Cmd) (ended func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		signal(c, syscall.SIGTERM)
		select {
		case <-over:
		case <-time.After(endWait):
			signal(c, syscall.SIGKILL)
		}
	})
	return func() {
		close(over)
		if !stop() {
			signal(c, syscall.SIGKILL)
		}
	}
}

// signal sends a signal to a plugin's process group, because IPAM plugins are children of
// the plugin. It ignores a group that has ended.
func signal(c *exec.Cmd, s syscall.Signal) { _ = syscall.Kill(-c.Process.Pid, s) }

// pluginError returns the error of a plugin that exited unsuccessfully: the plugin's CNI
// error, or otherwise one with all of its output.
func pluginError(err error, stdout, stderr []byte) error {
	var reported types.Error
	if json.Unmarshal(stdout, &reported) == nil && (reported.Code != 0 || reported.Msg != "") {
		return &reported
	}
	return &noAnswer{fmt.Errorf("%w%s%s", err, quoted("stdout", stdout), quoted("stderr", stderr))}
}

// quoted renders output for an error message, or returns "" if there is none.
func quoted(name string, out []byte) string {
	s := strings.TrimSpace(string(out))
	if s == "" {
		return ""
	}
	return fmt.Sprintf(", %s: %q", name, words.Short(s, maxQuoted))
}

// pause waits, and reports whether ctx has not ended.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
