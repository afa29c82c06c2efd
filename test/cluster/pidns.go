package cluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// endNamespace kills the first process of a PID namespace and waits until all
// the others have ended with it. The first process itself may stay longer: it
// cannot disappear before the real machine's init has collected those that
// were started from outside, which may take seconds. It has nothing left then
// but its PID.
func (p process) endNamespace(ctx context.Context) error {
	namespace, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", p.pid))
	if err != nil {
		namespace = "" // it has ended already
	}
	if err := p.signal(unix.SIGKILL); err != nil {
		if errors.Is(err, errNotRunning) {
			return nil
		}
		return err
	}
	what := fmt.Sprintf("waiting for the PID namespace of process %d to end", p.pid)
	return poll(ctx, time.Minute, what, func(context.Context) (bool, error) {
		if p.hasNamespaces() {
			return false, errors.New("its first process has not ended")
		}
		members, err := p.others(namespace)
		if err != nil {
			return false, stop(err)
		}
		if len(members) > 0 {
			return false, fmt.Errorf("there still are %d processes", len(members))
		}
		return true, nil
	})
}

// hasNamespaces reports whether the first process still holds its machine's namespaces. An
// ending process drops them before it becomes a zombie.
func (p process) hasNamespaces() bool {
	if _, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/net", p.pid)); err != nil {
		return false
	}
	now, err := identify(strconv.Itoa(p.pid))
	return err == nil && now == p
}

// others lists the processes in a PID namespace besides p. Processes in nested namespaces,
// as containers have, are killed with it; their control groups show when they have ended.
func (p process) others(namespace string) ([]process, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, err
	}
	var found []process
	for _, entry := range entries {
		if _, err := strconv.Atoi(entry.Name()); err != nil {
			continue
		}
		link, err := os.Readlink("/proc/" + entry.Name() + "/ns/pid")
		if err != nil || link != namespace {
			continue // also when it has ended meanwhile
		}
		if other, err := identify(entry.Name()); err == nil && other != p && other.alive() {
			found = append(found, other)
		}
	}
	return found, nil
}
