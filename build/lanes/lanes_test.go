package main

import (
	"errors"
	"os/exec"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTable(t *testing.T) {
	got := table([]lane{
		{name: "lint", wall: 61 * time.Second, cpu: 2 * time.Minute},
		{name: "e2e-dropin", wall: 3599 * time.Second, cpu: 90400 * time.Millisecond, err: errors.New("exit status 2")},
	}, 3)
	const want = `        lane  result   wall   CPU
        lint  passed   1:01  2:00
  e2e-dropin  FAILED  59:59  1:30
      2 of 3          61:00  3:30
to run it alone: make e2e-dropin
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

// What a lane has left to itself counts, too.
func TestMeasureCountsOrphans(t *testing.T) {
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		t.Fatal(err)
	}
	// The loop's shell is an orphan at once, and ends before the command does.
	const script = `
pid=$( (i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) >/dev/null & echo $! )
until grep -q ') Z' /proc/$pid/stat; do sleep 0.01; done
exit 3`
	l, err := measure(exec.Command("sh", "-c", script))
	if err != nil {
		t.Fatal(err)
	}
	if l.err == nil {
		t.Error("a command that fails passes")
	}
	if l.cpu < 100*time.Millisecond {
		t.Errorf("CPU time %s: the orphan's is not in it", l.cpu)
	}
}
