package main

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

func TestTable(t *testing.T) {
	got := table([]lane{
		{name: "lint", wall: 61 * time.Second, cpu: 2 * time.Minute},
		{
			name: "e2e", wall: 3599 * time.Second, cpu: 90400 * time.Millisecond, err: errors.New("exit status 2"),
			tests: []test{{"./test/e2e", "TestBurst"}},
		},
		{name: "fuzz", wall: time.Second, cpu: time.Second, err: errors.New("exit status 2")},
	}, 4)
	const want = `    lane  result   wall   CPU
    lint  passed   1:01  2:00
     e2e  FAILED  59:59  1:30
    fuzz  FAILED   0:01  0:01
  3 of 4          61:01  3:31
to run it alone: make e2e PKG=./test/e2e RUN='^TestBurst$'
to run it alone: make fuzz
`
	if got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestFailures(t *testing.T) {
	const brokenOff = `{"Action":"run","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA"}
{"Action":"fail","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part"}
{"Action":"fail","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA"}
{"Action":"pass","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestB"}
{"Action":"fail","Package":"github.com/nadra-dev/nadra/pkg/driver"}
{"Action":"fail","Package":"github.com/nadra`
	got, err := failures(strings.NewReader(brokenOff))
	if want := []test{{"./pkg/driver", "TestA"}}; err != nil || !slices.Equal(got, want) {
		t.Errorf("got %v, %v", got, err)
	}
	if got, err := failures(strings.NewReader("=== RUN TestA")); err == nil {
		t.Errorf("what is no note gives %v", got)
	}
}

func TestEndings(t *testing.T) {
	var long strings.Builder
	for i := range 100 {
		fmt.Fprintln(&long, "line", i)
	}
	got := endings([]lane{
		{name: "lint", ending: "all is well\n"},
		{name: "e2e", err: errors.New("exit status 2"), ending: lastLines(long.String())},
		{name: "fuzz", err: errors.New("exit status 1"), ending: lastLines("no end of line")},
	})
	begin := "=== make e2e failed (exit status 2); it printed last:\nline 60\n"
	end := "line 99\n\n=== make fuzz failed (exit status 1); it printed last:\nno end of line\n"
	if !strings.HasPrefix(got, begin) || !strings.HasSuffix(got, end) {
		t.Errorf("got:\n%s", got)
	}
}

func TestLoggedKeepsWhatIsPrinted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "log")
	l, err := logged(exec.Command("sh", "-c", "echo one; echo two >&2; exit 3"), path)
	if err != nil {
		t.Fatal(err)
	}
	if l.err == nil || l.ending != "one\ntwo\n" {
		t.Errorf("error %v, ending %q", l.err, l.ending)
	}
	if log, err := os.ReadFile(path); err != nil || string(log) != l.ending {
		t.Errorf("log %q, %v", log, err)
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
