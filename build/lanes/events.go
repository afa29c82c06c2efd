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
	last  string // its last line of output
}

// tests is what a lane's events report so far.
type tests struct {
	first  time.Time // when the first test binary started; before that, Go was building
	passed int       // test functions, without subtests
	failed []test    // test functions in the order of their ends
	now    map[test]running
}

// copied returns a copy that does not change any more.
func (t tests) copied() tests {
	t.failed, t.now = slices.Clone(t.failed), maps.Clone(t.now)
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
		delete(t.now, key)
		if function {
			t.failed = append(t.failed, key)
		}
	case "output":
		if r, ok := t.now[key]; ok && informative(e.Output) {
			r.last = strings.TrimSpace(e.Output)
			t.now[key] = r
		}
	}
	return nil
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
