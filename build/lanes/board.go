package main

import (
	"fmt"
	"io"
	"strings"
	"sync"
	"time"
)

// statusInterval is how often the board prints what the running lanes are at.
const statusInterval = 30 * time.Second

// board has the state of all lanes, and prints how they go. Its methods may be called
// from several goroutines.
type board struct {
	out   io.Writer
	now   func() time.Time
	begun time.Time

	mu      sync.Mutex
	running []lane // in the order of their beginnings
	done    []lane // in the order of their ends
}

// newBoard returns a board that prints to out.
func newBoard(out io.Writer, now func() time.Time) *board {
	return &board{out: out, now: now, begun: now()}
}

// since returns the time since the board was made.
func (b *board) since() time.Duration { return b.now().Sub(b.begun) }

// begin adds a lane.
func (b *board) begin(l lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running = append(b.running, l)
	b.print("%s begins", l.name)
}

// update replaces what is known of a running lane's tests and the last line that it
// printed, and prints which tests have failed since the last update.
func (b *board) update(name string, t tests, lastLine string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.running {
		l := &b.running[i]
		if l.name != name {
			continue
		}
		for _, failed := range t.failed[len(l.tests.failed):] {
			b.print("%s: %s FAILED; to run it alone: %s", name, failed.name, l.command(failed))
		}
		l.tests, l.ending = t.copied(), lastLine
	}
}

// end moves a lane to those that have ended.
func (b *board) end(l lane) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.running {
		if b.running[i].name == l.name {
			b.running = append(b.running[:i], b.running[i+1:]...)
			break
		}
	}
	b.done = append(b.done, l)
	b.print("%s %s after %s%s", l.name, l.result(), clock(l.usage.Wall), l.tests.counted())
}

// ended returns the lanes that have ended, in the order of their ends.
func (b *board) ended() []lane {
	b.mu.Lock()
	defer b.mu.Unlock()
	return append([]lane(nil), b.done...)
}

// report prints the status at intervals until the returned function is called.
func (b *board) report(interval time.Duration) (stop func()) {
	ended := make(chan struct{})
	var reporting sync.WaitGroup
	reporting.Go(func() {
		ticker := time.NewTicker(interval)
		defer ticker.Stop()
		for {
			select {
			case <-ended:
				return
			case <-ticker.C:
				b.printStatus()
			}
		}
	})
	return func() { close(ended); reporting.Wait() }
}

// printStatus prints what each running lane is at.
func (b *board) printStatus() {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, l := range b.running {
		b.print("… %s", l.status(b.now()))
	}
}

// print prints one line with the time since the beginning. The caller holds b.mu.
func (b *board) print(format string, args ...any) {
	fmt.Fprintf(b.out, "%6s  %s\n", clock(b.since()), fmt.Sprintf(format, args...))
}

// widestLine is how much of a last line a status has.
const widestLine = 90

// status describes a running lane: how long it runs, how many tests passed, and the
// test that runs. What it is at is the last line of the test, or of the lane.
func (l lane) status(now time.Time) string {
	var out strings.Builder
	fmt.Fprintf(&out, "%s for %s%s", l.name, clock(now.Sub(l.begun)), l.tests.counted())
	last := l.ending
	if r, ok := l.tests.current(); ok {
		fmt.Fprintf(&out, ", %s for %s", r.name, clock(now.Sub(r.since)))
		last = r.last
	}
	if last != "" {
		fmt.Fprintf(&out, ": %.*s", widestLine, last)
	}
	return out.String()
}

// counted returns how many tests passed and failed, with a comma before; empty for a
// lane without tests.
func (t tests) counted() string {
	var out string
	if t.passed > 0 {
		out += fmt.Sprintf(", %d tests passed", t.passed)
	}
	if len(t.failed) > 0 {
		out += fmt.Sprintf(", %d failed", len(t.failed))
	}
	return out
}
