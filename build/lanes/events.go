package main

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// module is the module whose tests the lanes run.
const module = "github.com/nadra-dev/nadra"

// test names a test function.
type test struct{ folder, name string }

// running is a test that has begun and not ended.
type running struct {
	name  string
	since time.Time
	last  string   // its last line of output
	said  []string // the last lines that it reported itself
}

// reasonsShown is how many of the lines that a failed test has reported are shown at the end.
const reasonsShown = 6

// reported matches a line that a test reports itself, in contrast to the logs of what it tests.
var reported = regexp.MustCompile(`^\s+\w+_test\.go:\d+: `)

// tests is what a lane's events report so far.
type tests struct {
	first  time.Time // when the first test binary started; before that, Go was building
	passed int       // test functions, without subtests
	failed []test    // test functions in the order of their ends
	// reasons has the last lines that each failed test reported, without tests that failed
	// because of a subtest, and the lines of a panic.
	reasons []string
	now     map[test]running
}

// copied returns a copy that does not change any more.
func (t tests) copied() tests {
	t.failed, t.reasons, t.now = slices.Clone(t.failed), slices.Clone(t.reasons), maps.Clone(t.now)
	return t
}

// add adds one line of test2json's events. It rejects a line that is not an event.
func (t *tests) add(line []byte) error {
	var e struct {
		Time                          time.Time
		Action, Package, Test, Output string
	}
	if err := json.Unmarshal(line, &e); err != nil {
		return fmt.Errorf("reading a test event: %w", err)
	}
	if e.Action == "start" && t.first.IsZero() {
		t.first = e.Time
	}
	if e.Action == "output" && panicked(e.Output) {
		t.reasons = append(t.reasons, strings.TrimSpace(e.Output))
	}
	if e.Test == "" {
		return nil
	}
	key := test{"." + strings.TrimPrefix(e.Package, module), e.Test}
	function := !strings.Contains(e.Test, "/")
	switch e.Action {
	case "run", "cont":
		if t.now == nil {
			t.now = map[test]running{}
		}
		t.now[key] = running{name: e.Test, since: e.Time}
	case "pause", "skip":
		delete(t.now, key)
	case "pass":
		delete(t.now, key)
		if function {
			t.passed++
		}
	case "fail":
		t.explain(key)
		delete(t.now, key)
		if function {
			t.failed = append(t.failed, key)
		}
	case "output":
		if r, ok := t.now[key]; ok && informative(e.Output) {
			r.last = strings.TrimSpace(e.Output)
			if reported.MatchString(e.Output) {
				r.said = append(r.said[max(0, len(r.said)-reasonsShown+1):], r.last)
			}
			t.now[key] = r
		}
	}
	return nil
}

// explain keeps what a failed test has reported, unless one of its subtests has failed.
func (t *tests) explain(failed test) {
	inside := func(line string) bool { return strings.HasPrefix(line, failed.name+"/") }
	if slices.ContainsFunc(t.reasons, inside) {
		return
	}
	for _, line := range t.now[failed].said {
		t.reasons = append(t.reasons, failed.name+": "+line)
	}
}

// panicked reports whether a line is from the panic that ends a test binary, for example
// because go test's limit is over; the tests that ran then follow.
func panicked(line string) bool {
	return strings.HasPrefix(line, "panic: ") || strings.HasPrefix(line, "\t\tTest")
}

// informative reports whether a line of output comes from the test itself.
func informative(line string) bool {
	line = strings.TrimSpace(line)
	return line != "" && !strings.HasPrefix(line, "=== ") && !strings.HasPrefix(line, "--- ")
}

// current returns the test that has run for the longest time of those that run no
// subtest; ok is false if no test runs.
func (t *tests) current() (r running, ok bool) {
	for _, candidate := range slices.SortedFunc(maps.Values(t.now), func(a, b running) int { return a.since.Compare(b.since) }) {
		hasSubtest := slices.ContainsFunc(slices.Collect(maps.Keys(t.now)), func(other test) bool {
			return strings.HasPrefix(other.name, candidate.name+"/")
		})
		if !hasSubtest {
			return candidate, true
		}
	}
	return running{}, false
}

// follower reads a growing file of events.
type follower struct {
	path   string
	offset int64
	tests  tests
}

// read takes in the lines that were added since the last call. A last line without its
// end waits for the next call. Without the file there are no events.
func (f *follower) read() error {
	file, err := os.Open(f.path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("opening the events: %w", err)
	}
	defer func() { _ = file.Close() }()
	added, err := io.ReadAll(io.NewSectionReader(file, f.offset, 1<<62))
	if err != nil {
		return fmt.Errorf("reading the events: %w", err)
	}
	for line := range bytes.Lines(added) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break
		}
		f.offset += int64(len(line))
		if err := f.tests.add(line); err != nil {
			return err
		}
	}
	return nil
}
