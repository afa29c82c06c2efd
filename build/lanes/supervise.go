package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// superviseFlag makes this program the supervisor of one command.
	superviseFlag = "-supervise"
	// fillNiceness is the priority of the lanes that only compute: clusters have
	// deadlines, compilers have none.
	fillNiceness = 10
)

// usage is what a command has used.
type usage struct{ Wall, CPU time.Duration }

// supervise runs a command, writes its usage to a file, and returns its exit status.
// CPU time is that of all processes that the command started and that have ended, also
// of those that it did not wait for: each lane has a supervisor of its own, which
// becomes their parent. Signals are for the command, which ends in an orderly way.
func supervise(path string, command []string) int {
	code, used, err := measure(exec.Command(command[0], command[1:]...))
	if err == nil {
		var content []byte
		if content, err = json.Marshal(used); err == nil {
			err = os.WriteFile(path, content, 0o644)
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "lanes:", err)
		return 1
	}
	return code
}

// measure runs a command to its end and returns its exit status and usage.
func measure(command *exec.Cmd) (code int, used usage, err error) {
	// Caught, and not ignored: the command would inherit that.
	signal.Notify(make(chan os.Signal, 1), os.Interrupt, unix.SIGTERM)
	// Processes whose parents have ended become children of this one.
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		return 0, usage{}, fmt.Errorf("becoming the parent of orphans: %w", err)
	}
	command.Stdout, command.Stderr = os.Stdout, os.Stderr
	begun := time.Now()
	err = command.Run()
	used.Wall = time.Since(begun)
	if err != nil && !errors.As(err, new(*exec.ExitError)) {
		return 0, usage{}, fmt.Errorf("running %s: %w", command.Path, err)
	}
	reap()
	var children unix.Rusage
	if err := unix.Getrusage(unix.RUSAGE_CHILDREN, &children); err != nil {
		return 0, usage{}, fmt.Errorf("reading the CPU time of a command: %w", err)
	}
	used.CPU = time.Duration(children.Utime.Nano() + children.Stime.Nano())
	if command.ProcessState.Success() {
		return 0, used, nil
	}
	return max(1, command.ProcessState.ExitCode()), used, nil // -1 after a signal
}

// reap waits for the orphans that have ended, which counts their CPU time.
func reap() {
	for {
		pid, err := unix.Wait4(-1, nil, unix.WNOHANG, nil)
		if err != unix.EINTR && (err != nil || pid == 0) {
			return
		}
	}
}
