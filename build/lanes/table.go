package main

import (
	"fmt"
	"strings"
	"text/tabwriter"
	"time"
)

// lane is what became of one make target.
type lane struct {
	name      string
	wall, cpu time.Duration
	err       error
	ending    string // what it printed last
	tests     []test // those that failed
}

// linesShown is how many of a failed lane's last lines are shown again. The failures
// of a lane of tests are its last lines.
const linesShown = 40

// lastLines returns as many of the last lines as are shown again.
func lastLines(printed string) string {
	lines := strings.SplitAfter(printed, "\n")
	return strings.Join(lines[max(0, len(lines)-linesShown-1):], "")
}

// endings returns what the lanes that have failed printed last.
func endings(lanes []lane) string {
	var out strings.Builder
	for _, l := range lanes {
		if l.err != nil {
			fmt.Fprintf(&out, "=== make %s failed (%v); it printed last:\n%s\n", l.name, l.err, l.ending)
		}
	}
	return out.String()
}

// failed returns the names of the lanes that have failed.
func failed(lanes []lane) []string {
	var out []string
	for _, l := range lanes {
		if l.err != nil {
			out = append(out, l.name)
		}
	}
	return out
}

// table lists the lanes in their order, their sum, and how each that has failed is
// run alone. of is how many there were to be.
func table(lanes []lane, of int) string {
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "lane\tresult\twall\tCPU\t")
	var sum lane
	for _, l := range lanes {
		result := "passed"
		if l.err != nil {
			result = "FAILED"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t\n", l.name, result, clock(l.wall), clock(l.cpu))
		sum.wall, sum.cpu = sum.wall+l.wall, sum.cpu+l.cpu
	}
	fmt.Fprintf(w, "%d of %d\t\t%s\t%s\t\n", len(lanes), of, clock(sum.wall), clock(sum.cpu))
	_ = w.Flush() // a Builder takes everything
	for _, l := range lanes {
		for _, command := range l.again() {
			fmt.Fprintln(&out, "to run it alone:", command)
		}
	}
	return out.String()
}

// again returns the commands that run alone what has failed.
func (l lane) again() []string {
	if l.err == nil {
		return nil
	}
	var out []string
	for _, t := range l.tests {
		out = append(out, fmt.Sprintf("make %s PKG=%s RUN='^%s$'", l.name, t.folder, t.name))
	}
	if len(out) == 0 {
		out = []string{"make " + l.name}
	}
	return out
}

// clock writes a duration in minutes and seconds.
func clock(d time.Duration) string {
	s := int(d.Round(time.Second).Seconds())
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}
