package cniexec

import (
	"errors"
	"sync"
	"syscall"
	"time"
)

// reaper collects what plugins leave behind. The driver is the first process of
// its container, and so the parent of every process there that loses its own;
// nobody else would collect them when they end. They are known by their process
// group, which is the plugin's: waiting for groups takes no process from those
// who wait for their own, and a group's number is not given away before its
// last process is collected.
type reaper struct {
	mu     sync.Mutex
	groups map[int]bool
}

// orphans are those of all plugins of this process.
var orphans = reaper{groups: map[int]bool{}}

const (
	// dyingLimit is how long killed processes are waited for.
	dyingLimit = 200 * time.Millisecond
	dyingPoll  = 5 * time.Millisecond
)

// collect collects those of a group that have ended, and those of groups before
// it. Who was killed ends soon, and is waited for.
func (r *reaper) collect(group int, killed bool) {
	r.mu.Lock()
	r.groups[group] = true
	r.mu.Unlock()
	for start := time.Now(); r.left(group) && killed && time.Since(start) < dyingLimit; {
		time.Sleep(dyingPoll)
	}
}

// left collects what has ended, and reports whether others of the group go on.
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

// ended collects a group's children that have ended, and reports whether there
// are no others.
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
