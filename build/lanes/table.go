package main

import (
	"fmt"
	"regexp"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// linesShown is how many of a failed lane's last lines are shown again. The failures
// of a lane of tests are its last lines.
const linesShown = 40

// widestReason is how much is shown of a line that a failed test reported.
const widestReason = 400

// summaryLine matches the line with which a lane reports its figures.
var summaryLine = regexp.MustCompile(`^[a-z0-9.-]+: [a-z-]+=\S`)

// summaryLines returns the lines with a lane's figures. Some are printed twice: by the
// tests, and by the target at its end.
func summaryLines(lines []string) (out []string) {
	for _, line := range lines {
		if summaryLine.MatchString(line) && !slices.Contains(out, line) {
			out = append(out, line)
		}
	}
	return out
}

// result returns passed or FAILED.
func (l lane) result() string {
	if l.err != nil {
		return "FAILED"
	}
	return "passed"
}

// endings returns the last lines of the lanes that failed.
func endings(lanes []lane) string {
	var out strings.Builder
	for _, l := range lanes {
		if l.err != nil {
			fmt.Fprintf(&out, "=== make %s failed (%v); its last lines:\n%s\n\n", l.name, l.err, l.ending)
		}
	}
	return out.String()
}

// countFailed returns how many lanes failed.
func countFailed(lanes []lane) (n int) {
	for _, l := range lanes {
		if l.err != nil {
			n++
		}
	}
	return n
}

// table lists the summary lines, the lanes with their times, and the commands that run alone what failed. The
// reasons of failures come last, because often only the end of a log is kept. Wall time runs for several
// lanes at once, so their sum is not that of the line all, which is wall.
func table(lanes []lane, wall time.Duration) string {
	var out strings.Builder
	for _, l := range lanes {
		for _, line := range l.summary {
			fmt.Fprintln(&out, line)
		}
	}
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "lane\tresult\tbuild\twall\tCPU\t")
	var cpu time.Duration
	for _, l := range lanes {
		build := ""
		if !l.tests.first.IsZero() {
			build = clock(l.tests.first.Sub(l.begun))
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t\n", l.name, l.result(), build, clock(l.usage.Wall), clock(l.usage.CPU))
		cpu += l.usage.CPU
	}
	fmt.Fprintf(w, "all\t\t\t%s\t%s\t\n", clock(wall), clock(cpu))
	_ = w.Flush() // a Builder takes everything
	for _, l := range lanes {
		for _, command := range l.again() {
			fmt.Fprintln(&out, "to run it alone:", command)
		}
	}
	for _, l := range lanes {
		for _, line := range l.tests.reasons {
			fmt.Fprintf(&out, "%s: %.*s\n", l.name, widestReason, line)
		}
	}
	return out.String()
}

// again returns the commands that run alone what failed.
func (l lane) again() []string {
	if l.err == nil {
		return nil
	}
	var out []string
	for _, t := range l.tests.failed {
		out = append(out, l.command(t))
	}
	if len(out) == 0 {
		out = []string{"make " + l.name}
	}
	return out
}

// command returns the command that runs one test of the lane.
func (l lane) command(t test) string {
	return fmt.Sprintf("make %s PKG=%s RUN='^%s$'", l.name, t.folder, t.name)
}

// clock writes a duration in minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
