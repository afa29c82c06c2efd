package report

import (
	"bufio"
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"text/tabwriter"
	"unicode/utf8"

	"github.com/mitchellh/go-wordwrap"
	"golang.org/x/term"

	"github.com/nadra-dev/nadra/internal/words"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// listed limits the items of a list in a cell of the table.
const listed = 3

// fileColumn is the last column of tables about files.
const fileColumn = "FILE"

// writeTable writes the default format: the workloads, other objects with findings, what the
// codes mean in a line each, and the totals.
func writeTable(s *sheet, r *Report) {
	file := ""
	if slices.ContainsFunc(r.Workloads, func(w Workload) bool { return w.Position.Line > 0 }) { // not of a cluster
		file = "\t" + fileColumn
	}
	placed := func(cells []string, p translate.Position) []string {
		if file == "" {
			return cells
		}
		return append(cells, fileOf(p))
	}
	table(s, "NAMESPACE\tWORKLOAD\tNETWORKS\tVERDICT\tFINDINGS"+file, r.Workloads, func(one Workload) []string {
		cells := []string{
			one.Object.Namespace, withPods(short(one.Object), one.Pods), some(locals(one)),
			string(one.Readiness), some(worstFirst(one.Codes)),
		}
		return placed(cells, one.Position)
	})
	table(s, "NAMESPACE\tALSO\tSEVERITY\tFINDINGS"+file, elsewhere(r), func(one objectFindings) []string {
		cells := []string{
			one.object.Namespace, short(one.object), string(worst(one.findings)),
			some(worstFirst(one.codes())),
		}
		return placed(cells, one.findings[0].Position)
	})
	s.legend(r.Findings)
	s.totals(r)
}

// sheet writes tables with an empty line between them. It keeps the writer's error until Flush returns it.
type sheet struct {
	*bufio.Writer
	began bool
	// width is the room of a line; 0 means any. without is set if FILE was left out because of it.
	width   int
	without bool
}

// drawn returns a function that writes a table. On a terminal, the table fits into its lines if its names do.
func drawn[T any](table func(*sheet, T)) func(io.Writer, T) error {
	return func(w io.Writer, document T) error {
		s := &sheet{Writer: bufio.NewWriter(w)}
		if f, ok := w.(interface{ Fd() uintptr }); ok {
			s.width, _, _ = term.GetSize(int(f.Fd())) // 0 of what is no terminal
		}
		table(s, document)
		return s.Flush()
	}
}

// println writes a line.
func (s *sheet) println(line string) { fmt.Fprintln(s, line) }

// gap writes an empty line, unless nothing is written yet.
func (s *sheet) gap() {
	if s.began {
		s.println("")
	}
	s.began = true
}

// printf writes a line.
func (s *sheet) printf(format string, args ...any) { s.println(fmt.Sprintf(format, args...)) }

// longest limits a cell, in bytes, because the table pads all cells of a column to the widest. Kind, namespace and name of an
// object have room; what has no valid name may be of any size. The last column is not padded.
const longest = 512

// table writes a row for each item under a header, or nothing without items.
func table[T any](s *sheet, header string, items []T, row func(T) []string) {
	if len(items) == 0 {
		return
	}
	s.gap()
	t := tabwriter.NewWriter(s, 0, 8, columnGap, ' ', 0)
	rows := [][]string{strings.Split(header, "\t")}
	for _, item := range items {
		cells := row(item)
		for i, c := range cells {
			cells[i] = dash(Visible(c))
			if i < len(cells)-1 {
				cells[i] = words.Short(cells[i], longest)
			}
		}
		rows = append(rows, cells)
	}
	for _, cells := range s.fitted(rows) {
		fmt.Fprintln(t, strings.Join(cells, "\t"))
	}
	_ = t.Flush() // the sheet keeps the error
}

// columnGap is the number of blanks between columns, and narrowest the least room for a text in several lines.
const columnGap, narrowest = 2, 24

// fitted returns the rows of a table that fit into a line: without the column FILE, unless only it tells two rows apart,
// and with the text of the last column in several lines if they have room. All other cells stay whole, because they have
// names: a line is rather longer than the terminal.
func (s *sheet) fitted(rows [][]string) [][]string {
	last := len(rows[0]) - 1
	width := func(columns int) (sum int) {
		for i := range columns {
			widest := 0
			for _, cells := range rows {
				widest = max(widest, utf8.RuneCountInString(cells[i]))
			}
			sum += widest + columnGap
		}
		return sum
	}
	if s.width == 0 || width(last+1)-columnGap <= s.width {
		return rows
	}
	if seen := map[string]bool{}; rows[0][last] == fileColumn {
		for _, cells := range rows {
			seen[strings.Join(cells[:last], "\t")] = true
		}
		if len(seen) == len(rows) {
			s.without = true
			last--
		}
	}
	room := s.width - width(last)
	if room < narrowest || rows[0][last] == fileColumn {
		room = math.MaxInt // the terminal breaks a line into fewer pieces; a name stays whole
	}
	var out [][]string
	for _, cells := range rows {
		for _, line := range strings.Split(wordwrap.WrapString(cells[last], uint(room)), "\n") {
			out = append(out, append(cells[:last:last], line))
			cells = make([]string, last)
		}
	}
	return out
}

// found writes a row for each finding that is unexpected, the worst first, and what all codes mean.
func (s *sheet) found(findings []translate.Finding) {
	var unexpected []translate.Finding
	for _, g := range groups(findings) {
		if g.Severity != translate.Info {
			unexpected = append(unexpected, g.findings...)
		}
	}
	table(s, "NAMESPACE\tOBJECT\tCODE\tSEVERITY\tFINDING", unexpected, func(f translate.Finding) []string {
		return []string{f.Object.Namespace, short(f.Object), string(f.Code), string(f.Severity), f.Message}
	})
	s.legend(findings)
}

// legend writes what the codes mean.
func (s *sheet) legend(findings []translate.Finding) {
	table(s, "CODE\tCOUNT\tSEVERITY\tMEANING", groups(findings), func(g group) []string {
		return []string{string(g.Code), fmt.Sprint(len(g.findings)), string(g.Severity), g.Title}
	})
}

// totals writes the totals.
func (s *sheet) totals(r *Report) {
	s.gap()
	s.println(inputSentence(r))
	for _, line := range outcome(r) {
		s.println(line)
	}
	if s.without {
		s.println("The files do not fit into the line: -o wide shows them.")
	}
	s.help(r.Findings)
}

// help names the command that explains a code.
func (s *sheet) help(findings []translate.Finding) {
	if all := groups(findings); len(all) > 0 {
		s.println("What a code means: kubectl nadra explain " + Visible(string(all[0].Code)))
	}
}

// elsewhere returns the objects with findings that are not workloads.
func elsewhere(r *Report) []objectFindings {
	s := findingsByObject(r)
	var out []objectFindings
	for i, findings := range s.networks {
		if len(findings) > 0 {
			out = append(out, objectFindings{r.Networks[i].Object, findings})
		}
	}
	return append(out, s.others...)
}

// worst returns the worst severity.
func worst(findings []translate.Finding) translate.Severity {
	out := translate.Info
	for _, f := range findings {
		if rank(f.Severity) < rank(out) {
			out = f.Severity
		}
	}
	return out
}

// fileOf returns a file's name and the line. Objects of a cluster have no file.
func fileOf(p translate.Position) string {
	if p.Line == 0 {
		return ""
	}
	return fmt.Sprintf("%s:%d", p.File, p.Line)
}

// withPods adds the number of pods to a name.
func withPods(name string, pods int) string {
	if pods == 0 {
		return name
	}
	return fmt.Sprintf("%s (%d)", name, pods)
}

// some returns the first items of a list, and the number of others.
func some(items []string) string {
	more := ""
	if n := len(items); n > listed {
		items, more = items[:listed-1], fmt.Sprintf(",+%d", n-listed+1)
	}
	return Visible(strings.Join(items, ",")) + more
}

// dash returns "-" for an empty cell.
func dash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}
