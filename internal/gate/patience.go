package gate

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// minWait is the least that a container is held, however old its sandbox: the
// driver may have just come back and be attaching anew.
const minWait = 10 * time.Second

// ticks is the unit of times in /proc/PID/stat: USER_HZ, 100 per second on
// every architecture that Go has (proc(5)).
const ticks = time.Second / 100

// Patience is how long a container that starts now is held for its networks,
// in a sandbox of this age, where wait is the whole sandbox's: the containers
// of a pod share one wait, so that deleting the pod, which lets each of them
// start and fail in turn, takes about one, and not one per container. The age
// is zero where it is not known.
func Patience(age, wait time.Duration) time.Duration {
	least := min(minWait, wait)
	return max(least, wait-max(age, 0))
}

// SandboxProcess returns the PID of the process whose network namespace the
// path names. containerd gives a container the namespaces of its sandbox in
// this form, by the sandbox's first process; of a path in another form nothing
// is known.
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

// StartTime returns when a process was started, as time since the node's boot
// (CLOCK_BOOTTIME), from the content of its /proc/PID/stat: field 22 of
// proc_pid_stat(5).
func StartTime(stat string) (time.Duration, error) {
	// Field 2 is the process' name in parentheses and may contain anything.
	fields := strings.Fields(stat[strings.LastIndexByte(stat, ')')+1:])
	const start = 22 - 3
	if len(fields) <= start {
		return 0, fmt.Errorf("a process' status has %d fields after its name", len(fields))
	}
	n, err := strconv.ParseInt(fields[start], 10, 64)
	if err != nil {
		return 0, fmt.Errorf("reading a process' start time: %w", err)
	}
	return time.Duration(n) * ticks, nil
}
