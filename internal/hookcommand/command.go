// Package hookcommand runs a command line of a person's machine, such as a hook of
// `kubectl nadra upgrade`, and ends it with everything that it has started.
//
//	command.go  runs a command line within a time limit
//	lines.go    splits its output into lines
package hookcommand

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"
)

const (
	// endWait is the time between SIGTERM and SIGKILL for a command that must end.
	endWait = 10 * time.Second
	// pipeWait limits the wait for the output of a process that the command has left in
	// the background.
	pipeWait = 2 * time.Second
)

// Error is the error of a command that was started, and did not succeed.
type Error struct {
	Err error
	// Tail are the last lines of its output.
	Tail []string
}

func (e *Error) Error() string {
	if len(e.Tail) == 0 {
		return e.Err.Error() + ", without any output"
	}
	return fmt.Sprintf("%v; its last output: %s", e.Err, strings.Join(e.Tail, "\n"))
}

func (e *Error) Unwrap() error { return e.Err }

// Run runs a command line with sh, with the variables of this process and those of env, and
// calls say with each line of its output. Its standard input is empty. After limit, or if
// ctx ends, it ends the command's process group, first with SIGTERM and then with SIGKILL;
// after limit its error is context.DeadlineExceeded.
func Run(ctx context.Context, line string, env []string, limit time.Duration, say func(line string)) error {
	limited, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	if err := limited.Err(); err != nil {
		return err
	}
	out := &lines{say: say}
	c := exec.Command("sh", "-c", line)
	c.Env = append(os.Environ(), env...)
	c.Stdout, c.Stderr = out, out
	c.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	c.WaitDelay = pipeWait
	if err := c.Start(); err != nil {
		return fmt.Errorf("starting sh: %w", err)
	}
	ended := endWith(limited, c.Process.Pid)
	err := c.Wait()
	ended()
	out.end()
	switch {
	case ctx.Err() != nil:
		return &Error{ctx.Err(), out.tail}
	case limited.Err() != nil:
		return &Error{fmt.Errorf("after %s: %w", limit, limited.Err()), out.tail}
	case err == nil, errors.Is(err, exec.ErrWaitDelay): // it succeeded, and something in the background keeps its output open
		return nil
	}
	return &Error{err, out.tail}
}

// endWith ends a process group when ctx ends. The caller calls the returned function when
// the group's first process has ended; if ctx has ended, too, it kills the rest.
func endWith(ctx context.Context, group int) (ended func()) {
	over := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		signal(group, syscall.SIGTERM)
		select {
		case <-over:
		case <-time.After(endWait):
			signal(group, syscall.SIGKILL)
		}
	})
	return func() {
		close(over)
		if !stop() {
			signal(group, syscall.SIGKILL)
		}
	}
}

// signal sends a signal to a process group. It ignores a group that has ended.
func signal(group int, s syscall.Signal) { _ = syscall.Kill(-group, s) }
