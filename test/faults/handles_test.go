//go:build e2e

package faults

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/lab"
)

const (
	// handleBurst is how many pods are created at once.
	handleBurst = 25
	// moreFiles is how many more connections an idle driver may have than after
	// the first burst.
	moreFiles = 8
	// moreThreads is the same for threads. Go ends no thread, and every pod of a burst may
	// hold one while its plugin runs, so their number shows how many plugins have run at
	// once. A leak of one per life would exceed it.
	moreThreads = 2 * handleBurst
)

// handles counts the open files and threads of a process.
type handles struct {
	pid                   string
	files, netns, threads int
}

func (h handles) String() string {
	return fmt.Sprintf("process %s with %d open files, %d of them network namespaces, and %d threads", h.pid, h.files, h.netns, h.threads)
}

// TestHandlesAreStable checks that the driver holds as many files and threads after many
// pods as after the first ones.
func TestHandlesAreStable(t *testing.T) {
	s := setUp(t, "handles", 20*time.Minute)
	pods := int(number(t, "FAULT_HANDLE_LIVES", 100))
	v := newLives(s)
	v.slots = make(chan struct{}, handleBurst)
	var first handles
	for made := 0; made < pods; made += handleBurst {
		v.begin(shortLives(made, min(handleBurst, pods-made)))
		if made == 0 {
			v.running.Wait()
			first = s.idle()
			s.note("after the first burst: %s", first)
		}
	}
	v.running.Wait()
	last := s.idle()
	s.note("after %d lives: %s", v.created, last)
	switch {
	case last.pid != first.pid:
		t.Errorf("the driver has died: it was process %s and is %s", first.pid, last.pid)
	case last.files > first.files+moreFiles, last.threads > first.threads+moreThreads, last.netns > first.netns:
		t.Errorf("the driver has gathered handles: first %s, now %s", first, last)
	}
	for _, f := range s.checker.all() {
		t.Errorf("container %s of pod %s has run without %s: %s", f.container, f.pod, f.missing, f.evidence)
	}
	for _, what := range s.leaks(s.ctx, leftoverLimit) {
		t.Errorf("left over: %s", what)
	}
}

// shortLives returns lives of pods that are deleted as soon as they are Ready.
func shortLives(from, n int) []life {
	out := make([]life, n)
	for i := range out {
		claims := []string{templates[(from+i)%len(templates)]}
		l := life{claims: claims, grace: 1, end: graceful}
		l.name = fmt.Sprintf("short-%04d-%d", from+i, len(l.networks()))
		out[i] = l
	}
	return out
}

// idle waits until no pods are being deleted and the driver's handles no longer change, and
// returns them.
func (s *suite) idle() handles {
	s.t.Helper()
	var now handles
	s.must(lab.Eventually(s.ctx, 2*time.Minute, func(ctx context.Context) error {
		before, err := s.handles()
		if err != nil {
			return err
		}
		pause(ctx, 2*time.Second)
		if now, err = s.handles(); err != nil {
			return err
		}
		if now != before {
			return errors.New("the driver is not idle: " + now.String())
		}
		return nil
	}))
	return now
}

// handles counts the driver's open files and threads.
func (s *suite) handles() (handles, error) {
	pid, err := lab.DriverPID(s.node)
	if err != nil {
		return handles{}, err
	}
	proc, err := s.node.HostPath(filepath.Join("/proc", pid))
	if err != nil {
		return handles{}, err
	}
	files, err := os.ReadDir(proc + "/fd")
	if err != nil {
		return handles{}, err
	}
	threads, err := os.ReadDir(proc + "/task")
	if err != nil {
		return handles{}, err
	}
	h := handles{pid: pid, files: len(files), threads: len(threads)}
	for _, f := range files {
		target, err := os.Readlink(filepath.Join(proc, "fd", f.Name()))
		if err == nil && (strings.HasPrefix(target, "net:[") || strings.Contains(target, "/run/netns/")) {
			h.netns++
		}
	}
	return h, nil
}
