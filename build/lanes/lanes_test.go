package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// The lanes of these tests run this program as their supervisor.
func TestMain(m *testing.M) {
	if len(os.Args) > 2 && os.Args[1] == superviseFlag {
		os.Exit(supervise(os.Args[2], os.Args[3:])) //nolint:forbidigo // this is main
	}
	m.Run()
}

func TestTable(t *testing.T) {
	begun := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	lanes := []lane{
		{name: "lint", usage: usage{Wall: 61 * time.Second, CPU: 2 * time.Minute}},
		{
			name: "e2e", begun: begun, usage: usage{3599 * time.Second, 90400 * time.Millisecond},
			err: errors.New("exit status 2"), summary: []string{"e2e: pods=3"},
			tests: tests{first: begun.Add(20 * time.Second), failed: []test{{"./test/e2e", "TestBurst"}}, reasons: []string{"TestBurst: burst_test.go:20: 3 of 50 pods"}},
		},
		{name: "fuzz", usage: usage{time.Second, time.Second}, err: errors.New("exit status 2")},
	}
	const want = `e2e: pods=3
  lane  result  build   wall   CPU
  lint  passed          1:01  2:00
   e2e  FAILED   0:20  59:59  1:30
  fuzz  FAILED          0:01  0:01
   all                 60:00  3:31
to run it alone: make e2e PKG=./test/e2e RUN='^TestBurst$'
to run it alone: make fuzz
e2e: TestBurst: burst_test.go:20: 3 of 50 pods
`
	if got := table(lanes, time.Hour); got != want {
		t.Errorf("got:\n%s\nwant:\n%s", got, want)
	}
}

func TestSummaryLines(t *testing.T) {
	got := summaryLines([]string{"whereabouts: pods=338 lost=0", "ok: it passed", "PASS", "  dhcp: pods=2", "whereabouts: pods=338 lost=0"})
	if want := []string{"whereabouts: pods=338 lost=0"}; !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

const events = `{"Time":"2026-11-23T12:00:00Z","Action":"start","Package":"github.com/nadra-dev/nadra/pkg/driver"}
{"Time":"2026-11-23T12:00:01Z","Action":"run","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA"}
{"Time":"2026-11-23T12:00:02Z","Action":"run","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part"}
{"Time":"2026-11-23T12:00:03Z","Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part","Output":"    waiting for 3 pods\n"}
{"Time":"2026-11-23T12:00:03Z","Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part","Output":"=== PAUSE\n"}
`

const rest = `{"Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part","Output":"    a_test.go:20: 3 of 50 pods\n"}
{"Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part","Output":"        I1125 a log\n"}
{"Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA","Output":"    a_test.go:30: not the reason\n"}
{"Action":"fail","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA/part"}
{"Action":"fail","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestA"}
{"Action":"run","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestB"}
{"Action":"pass","Package":"github.com/nadra-dev/nadra/pkg/driver","Test":"TestB"}
{"Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Output":"panic: test timed out after 30m0s\n"}
{"Action":"output","Package":"github.com/nadra-dev/nadra/pkg/driver","Output":"\t\tTestC (3m0s)\n"}
{"Action":"fail","Package":"github.com/nadra-dev/nadra/pkg/driver"}
{"Action":"fail","Package":"github.com/nadra`

func TestFollowerReadsAGrowingFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "events")
	f := &follower{path: path}
	if err := f.read(); err != nil {
		t.Fatalf("without the file: %v", err)
	}
	write := func(content string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := f.read(); err != nil {
			t.Fatal(err)
		}
	}
	write(events)
	at := time.Date(2026, 11, 23, 12, 0, 5, 0, time.UTC)
	l := lane{name: "unit", begun: at.Add(-time.Minute), tests: f.tests}
	if got, want := l.status(at), "unit for 1:00, TestA/part for 0:03: waiting for 3 pods"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	write(events + rest)
	if want := []test{{"./pkg/driver", "TestA"}}; f.tests.passed != 1 || !slices.Equal(f.tests.failed, want) || len(f.tests.now) != 0 {
		t.Errorf("got %+v", f.tests)
	}
	want := []string{"TestA/part: a_test.go:20: 3 of 50 pods", "panic: test timed out after 30m0s", "TestC (3m0s)"}
	if !slices.Equal(f.tests.reasons, want) {
		t.Errorf("the reasons are %q, want %q", f.tests.reasons, want)
	}
	if err := f.tests.add([]byte("=== RUN TestA")); err == nil {
		t.Error("a line that is not an event is accepted")
	}
}

// runScript runs a script as lane e2e, whose files are path.log and path.json, and
// returns it and what the board printed. The script's $0 is path.
func runScript(ctx context.Context, t *testing.T, path, script string) (lane, string) {
	t.Helper()
	var out bytes.Buffer
	b := newBoard(&out, time.Now)
	l := runLane(ctx, b, "e2e", path, command{name: "sh", args: []string{"-c", script, path}})
	if got := b.ended(); len(got) != 1 || got[0].name != "e2e" {
		t.Errorf("the board has %+v", got)
	}
	return l, out.String()
}

func TestLaneThatPasses(t *testing.T) {
	l, _ := runScript(t.Context(), t, filepath.Join(t.TempDir(), "lane"), "echo one; echo 'e2e: pods=2' >&2")
	if l.err != nil || l.ending != "one\ne2e: pods=2" || !slices.Equal(l.summary, []string{"e2e: pods=2"}) {
		t.Errorf("got %+v", l)
	}
	if got := endings([]lane{l}); got != "" {
		t.Errorf("its last lines are shown again: %s", got)
	}
}

func TestLaneThatFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lane")
	l, printed := runScript(t.Context(), t, path, "printf %s '"+events+rest+"' >$0.json; echo bad; exit 3")
	if l.err == nil || !strings.Contains(printed, "TestA FAILED; to run it alone: make e2e PKG=./pkg/driver RUN='^TestA$'\n") {
		t.Errorf("got %v, and the board printed\n%s", l.err, printed)
	}
	if got, want := endings([]lane{l}), "=== make e2e failed (exit status 3); its last lines:\nbad\n\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// An interrupted lane gets the signal and may end in its own way.
func TestLaneThatIsInterrupted(t *testing.T) {
	path := filepath.Join(t.TempDir(), "lane")
	ctx, interrupt := context.WithCancel(t.Context())
	go func() {
		for lastLine(path+".log") != "ready" {
			time.Sleep(10 * time.Millisecond)
		}
		interrupt()
	}()
	l, _ := runScript(ctx, t, path, "trap 'echo cleaned up; exit 4' INT; echo ready; while :; do sleep 0.1; done")
	if l.err == nil || l.ending != "ready\ncleaned up" {
		t.Errorf("got %v, and the output %q", l.err, l.ending)
	}
}

// TestUsageCountsOrphans runs a command whose child loses its parent before it ends.
func TestUsageCountsOrphans(t *testing.T) {
	const script = `
pid=$( (i=0; while [ $i -lt 200000 ]; do i=$((i+1)); done) >/dev/null & echo $! )
until grep -q ') Z' /proc/$pid/stat; do sleep 0.01; done`
	used, err := command{name: "sh", args: []string{"-c", script}}.run(t.Context(), filepath.Join(t.TempDir(), "lane"))
	if err != nil {
		t.Fatal(err)
	}
	if used.CPU < 100*time.Millisecond {
		t.Errorf("CPU time %s: the orphan's is missing", used.CPU)
	}
}

func TestLastLine(t *testing.T) {
	for content, want := range map[string]string{
		"": "", "no end": "", "one\n": "one", "one\ntwo\nthree": "two",
		"go build\ngo: downloading k8s.io/api v0.37.2\n": "go build", strings.Repeat("x", 5000) + "\nlast\n\n": "last",
	} {
		path := filepath.Join(t.TempDir(), "log")
		if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		if got := lastLine(path); got != want {
			t.Errorf("of %.20q: got %q, want %q", content, got, want)
		}
	}
	if got := lastLine(fmt.Sprint(t.TempDir(), "/none")); got != "" {
		t.Errorf("without a file: got %q", got)
	}
}
