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
)

const (
	// busyRetry is the pause between attempts while a plugin's binary is being
	// written ("text file busy").
	busyRetry = 50 * time.Millisecond
	// busyLimit ends these attempts.
	busyLimit = 5 * time.Second
	// pipeWait is how long output may stay open after a plugin was ended; a
	// process that left the group and kept the pipe must not hold us.
	pipeWait = 200 * time.Millisecond
	// endWait is how long a plugin that is asked to end, by SIGTERM, may take to
	// give back a lock or an address before it is killed.
	endWait = time.Second
	// maxOutput bounds what of a plugin's output goes into an error.
	maxOutput = 1024
)

// hostExec is libcni's door to the operating system (invoke.Exec).
type hostExec struct {
	version.PluginDecoder
	root string
	// ran is Options.Ran.
	ran func(plugin, verb string, took time.Duration)
	// held is what the plugins' input waits for; nil where for nothing.
	held *held
	// gone says that the sandbox's network namespace is; see nothingLeft.
	gone bool
	// kept is the sandbox's network namespace, which plugins get at keptPath; nil where
	// it has a path of its own.
	kept *os.File
}

// keptPath is where a plugin finds the first file that it inherits. The plugins that it
// starts inherit that, too.
const keptPath = "/proc/self/fd/3"

// ExecPlugin runs one plugin to its end or to the end of ctx, whichever comes
// first; then its whole process group is asked to end, and soon after killed. A failure that the plugin
// reports keeps its CNI code; any other gets what it wrote. libcni puts the
// plugin's name before all of them.
func (e *hostExec) ExecPlugin(ctx context.Context, path string, stdin []byte, environ []string) ([]byte, error) {
	var stdout, stderr bytes.Buffer
	start := time.Now()
	err := e.run(ctx, path, stdin, environ, &stdout, &stderr)
	for errors.Is(err, syscall.ETXTBSY) && time.Since(start) < busyLimit && pause(ctx, busyRetry) {
		err = e.run(ctx, path, stdin, environ, &stdout, &stderr)
	}
	if e.ran != nil {
		e.ran(filepath.Base(path), verbOf(environ), time.Since(start))
	}
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, &trouble{fmt.Errorf("ended after %s: %w%s",
			time.Since(start).Round(time.Millisecond), context.Cause(ctx), quoted("stderr", stderr.Bytes()))}
	case err != nil:
		err = pluginError(err, stdout.Bytes(), stderr.Bytes())
		if e.gone && nothingLeft(filepath.Base(path), err) {
			return nil, nil
		}
		return nil, err
	}
	// Only ADD has a result that anybody reads.
	if verbOf(environ) == "ADD" && !json.Valid(stdout.Bytes()) {
		return nil, &trouble{fmt.Errorf("it succeeded but its result is not JSON%s%s",
			quoted("stdout", stdout.Bytes()), quoted("stderr", stderr.Bytes()))}
	}
	return stdout.Bytes(), nil
}

// verbOf is CNI's verb in a plugin's environment.
func verbOf(environ []string) string {
	for _, v := range environ {
		if verb, is := strings.CutPrefix(v, "CNI_COMMAND="); is {
			return verb
		}
	}
	return ""
}

func (e *hostExec) run(ctx context.Context, path string, stdin []byte, environ []string, stdout, stderr *bytes.Buffer) error {
	stdout.Reset()
	stderr.Reset()
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
		return err
	}
	ended := endWith(ctx, c)
	err := c.Wait()
	ended()
	orphans.collect(c.Process.Pid, ctx.Err() != nil)
	if errors.Is(err, exec.ErrWaitDelay) && ctx.Err() == nil {
		return nil // it succeeded and left a daemon that keeps the pipe open
	}
	return err
}

// endWith ends a plugin when ctx does. The function returned is to be called when
// the plugin has ended, and kills what is left of its process group then.
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

// signal sends a signal to a plugin's process group: IPAM plugins are children
// of the plugin. A group that has ended is no error.
func signal(c *exec.Cmd, s syscall.Signal) { _ = syscall.Kill(-c.Process.Pid, s) }

// pluginError makes the error of a plugin that exited unsuccessfully: its own
// words where it spoke CNI, otherwise everything that it wrote.
func pluginError(err error, stdout, stderr []byte) error {
	var reported types.Error
	if json.Unmarshal(stdout, &reported) == nil && (reported.Code != 0 || reported.Msg != "") {
		return &reported
	}
	return &trouble{fmt.Errorf("%w%s%s", err, quoted("stdout", stdout), quoted("stderr", stderr))}
}

// quoted renders output for an error message; nothing when there is none.
func quoted(name string, out []byte) string {
	s := strings.TrimSpace(string(out))
	if s == "" {
		return ""
	}
	if len(s) > maxOutput {
		s = s[:maxOutput] + "…"
	}
	return fmt.Sprintf(", %s: %q", name, s)
}

func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
