package cniexec

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// reaper collects the processes that plugins leave behind. The driver is the first process
// of its container and becomes the parent of every process there whose parent ends, so
// nothing else would collect them. The reaper knows them by their process group, which is
// the plugin's: waiting for a group takes no process from code that waits for its own, and
// the kernel does not reuse a group's number before its last process is collected.
type reaper struct {
	mu     sync.Mutex
	groups map[int]bool
}

// leftBehind collects the processes that all plugins of this process leave behind.
var leftBehind = reaper{groups: map[int]bool{}}

const (
	// dyingLimit limits the wait for killed processes.
	dyingLimit = 200 * time.Millisecond
	dyingPoll  = 5 * time.Millisecond
)

// collect collects the processes of a group, and of earlier groups, that have ended. It
// waits for killed processes, which end soon.
func (r *reaper) collect(group int, killed bool) {
	r.mu.Lock()
	r.groups[group] = true
	r.mu.Unlock()
	for start := time.Now(); r.left(group) && killed && time.Since(start) < dyingLimit; {
		time.Sleep(dyingPoll)
	}
}

// left collects processes that have ended, and reports whether others of the group run.
func (r *reaper) left(group int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	for g := range r.groups {
		if ended(g) {
			delete(r.groups, g)
		}
	}
	return r.groups[group]
}

// ended collects the children in a group that have ended, and reports whether there are
// no others.
func ended(group int) bool {
	for {
		pid, err := syscall.Wait4(-group, nil, syscall.WNOHANG, nil)
		switch {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return true // ECHILD
		case pid == 0:
			return false
		}
	}
}
