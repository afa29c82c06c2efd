package gate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// minWait is the shortest time for which a container is held, however old its sandbox is:
// the driver may have just started and be attaching the networks again.
const minWait = 10 * time.Second

// ticks is the unit of times in /proc/PID/stat: USER_HZ, 100 per second on every
// architecture that Go supports (proc(5)).
const ticks = time.Second / 100

// WaitLimit returns how long a container that starts now is held for its networks. age is
// the sandbox's, or zero if it is unknown, and wait is for the whole sandbox: the
// containers of a pod share it, so that deleting the pod, in which each of them starts and
// fails in turn, takes about one wait instead of one per container.
func WaitLimit(age, wait time.Duration) time.Duration {
	least := min(minWait, wait)
	return max(least, wait-max(age, 0))
}

// SandboxProcess returns the PID of the process whose network namespace the path names.
// containerd gives a container the namespaces of its sandbox in this form, by the
// sandbox's first process. ok is false for a path in another form.
func SandboxProcess(netns string) (pid int, ok bool) {
	number, ok := strings.CutPrefix(netns, "/proc/")
	if !ok {
		return 0, false
	}
	number, ok = strings.CutSuffix(number, "/ns/net")
	if !ok {
		return 0, false
	}
	pid, err := strconv.Atoi(number)
	return pid, err == nil && pid > 0
}

// StartTime returns when a process was started, as the time since the node's boot
// (CLOCK_BOOTTIME), from the content of its /proc/PID/stat: field 22 of proc_pid_stat(5).
func StartTime(stat string) (time.Duration, error) {
	// Field 2 is the process's name in parentheses and may contain anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const start = 22 - 3
	if len(fields) <= start {
		return 0, fmt.Errorf("reading a process's start time: only %d fields after its name", len(fields))
	}
	n, err := strconv.ParseInt(fields[start], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a process's start time: %w", err)
	}
	return time.Duration(n) * ticks, nil
}
