package cniexec

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// inheritOrphans makes the test what the driver is in its container.
func inheritOrphans(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0); err != nil {
			t.Error(err)
		}
	})
}

// children are the PIDs of this process' children, zombies included.
func children(t *testing.T) []string {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(files) == 0 {
		t.Fatal("the kernel lists no children", err)
	}
	var pids []string
	for _, file := range files {
		// A thread that has ended has none.
		text, _ := os.ReadFile(file)
		pids = append(pids, strings.Fields(string(text))...)
	}
	return pids
}

func TestKilledProcessesAreCollected(t *testing.T) {
	inheritOrphans(t)
	w := newWorld(t)
	w.plugin(t, "hang", `sleep 600 & touch $DIR/begun; sleep 600`)
	if _, err := w.Add(w.endOnceBegun(t, context.DeadlineExceeded), sandbox, conflist("hang"), nil); err == nil {
		t.Fatal("no error")
	}
	if left := children(t); len(left) > 0 {
		t.Errorf("left: %v", left)
	}
}

// A daemon that ends later is collected when the next plugin has run.
func TestDaemonsAreCollected(t *testing.T) {
	inheritOrphans(t)
	w := newWorld(t)
	w.plugin(t, "daemon", `(for i in $(seq 6000); do [ -e $DIR/end ] && break; sleep 0.01; done) >/dev/null 2>&1 & echo '`+result+`'`)
	w.plugin(t, "p", `echo '`+result+`'`)
	if _, err := w.Add(t.Context(), sandbox, conflist("daemon"), nil); err != nil {
		t.Fatal(err)
	}
	if left := children(t); len(left) != 1 {
		t.Fatalf("the daemon is not there: %v", left)
	}
	if err := os.WriteFile(filepath.Join(w.dir, "end"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for deadline := time.Now().Add(time.Minute); len(children(t)) > 0; {
		if time.Now().After(deadline) {
			t.Fatalf("left: %v", children(t))
		}
		if _, err := w.Add(t.Context(), sandbox, conflist("p"), nil); err != nil {
			t.Fatal(err)
		}
	}
}
