package report

import (
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/desk/cleanup"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// narrowTerminal keeps what is written, and is a terminal of some columns.
type narrowTerminal struct {
	strings.Builder
	*os.File
}

func (t *narrowTerminal) Write(p []byte) (int, error) { return t.Builder.Write(p) }

func (t *narrowTerminal) WriteString(s string) (int, error) { return t.Builder.WriteString(s) }

// onTerminal returns what is written to a terminal of some columns.
func onTerminal(t *testing.T, width int, write func(io.Writer) error) string {
	t.Helper()
	file, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatalf("opening a terminal: %v", err)
	}
	defer func() { _ = file.Close() }()
	if err := unix.IoctlSetWinsize(int(file.Fd()), unix.TIOCSWINSZ, &unix.Winsize{Row: 24, Col: uint16(width)}); err != nil {
		t.Fatal(err)
	}
	out := &narrowTerminal{File: file}
	if err := write(out); err != nil {
		t.Fatal(err)
	}
	return out.Builder.String()
}

// workloadIn returns a verdict on a workload of a file.
func workloadIn(file string) translate.Verdict {
	return translate.Verdict{
		Object:   translate.ObjectRef{Kind: "Deployment", Namespace: "core", Name: "web-of-the-core"},
		Position: translate.Position{File: file, Line: 7}, Readiness: translate.Ready, Networks: []string{"core/user-plane"},
	}
}

// TestTableFits writes the table to terminals: no line is longer than the terminal, and a file's name is whole or absent.
func TestTableFits(t *testing.T) {
	file := strings.Repeat("folder/", 12) + "web.yaml"
	r := Build(Input{Files: 1, Result: translate.Result{Workloads: []translate.Verdict{workloadIn(file)}}})
	for width, whole := range map[int]bool{0: true, 300: true, 120: false, 80: false} {
		table, _, _ := strings.Cut(onTerminal(t, width, func(w io.Writer) error { return Scan.Write(w, "table", r) }), "\n\n")
		checkWidth(t, table, width)
		if got := strings.Contains(table, file+":7"); got != whole || got != strings.Contains(table, fileColumn) {
			t.Errorf("on a terminal of %d characters the table is\n%s", width, table)
		}
	}
	if wide := onTerminal(t, 80, func(w io.Writer) error { return Scan.Write(w, "wide", r) }); !strings.Contains(wide, file+":7") {
		t.Errorf("the wide table is\n%s", wide)
	}
}

// TestFilesThatTellRowsApart checks that the column FILE stays if two rows differ in nothing else.
func TestFilesThatTellRowsApart(t *testing.T) {
	files := []string{strings.Repeat("folder/", 12) + "a.yaml", strings.Repeat("folder/", 12) + "b.yaml"}
	r := Build(Input{Files: 2, Result: translate.Result{Workloads: []translate.Verdict{workloadIn(files[0]), workloadIn(files[1])}}})
	checkRows(t, func(w io.Writer) error { return Scan.Write(w, "table", r) }, files)
}

// TestNamesAreWhole writes tables of long names, which stay whole on every terminal.
func TestNamesAreWhole(t *testing.T) {
	var names, nodes []string
	var orphans cleanup.Report
	for i := range 5 {
		name := fmt.Sprintf("/var/lib/cni/networks/user-plane/10.88.0.%d", 200+i)
		names = append(names, name)
		orphans.Orphans = append(orphans.Orphans, probe.Orphan{
			Node: "worker-1.example.net", Kind: probe.OrphanHostLocal, Object: name, Address: fmt.Sprintf("10.88.0.%d", 200+i), Action: probe.ActionRelease,
			Why: "the container runtime has no such sandbox, and no network namespace has the address",
		})
	}
	list := func(w io.Writer) error { return Cleanup.Write(w, "table", orphans) }
	checkRows(t, list, names)
	for width, pieces := range map[int]int{80: 1, 120: 1, 160: 2} { // in fewer than 24 columns a text is not broken
		if table, _, _ := strings.Cut(onTerminal(t, width, list), "\n\n"); strings.Count(table, "\n") != pieces*len(names) {
			t.Errorf("on a terminal of %d characters, not each text has %d lines:\n%s", width, pieces, table)
		}
	}

	n := canary.NetworkReport{Network: "core/user-plane"}
	for i := range widest {
		node := fmt.Sprintf("ip-10-0-12-%d.eu-central-1.compute.internal", 100+i)
		nodes = append(nodes, node)
		n.Pods = append(n.Pods, canary.PodReport{Pod: canary.Pod{Namespace: "core", Name: node, Node: node}, Status: canary.OK})
	}
	n.Pings = []canary.PingReport{{From: nodes[0], To: nodes[1], Status: canary.Failed}}
	matrix := drawn(func(s *sheet, n *canary.NetworkReport) { s.matrix(n) })
	checkRows(t, func(w io.Writer) error { return matrix(w, &n) }, nodes)

	pod := "canary-" + strings.Repeat("n", 45) + "-0123456789"
	left := canary.NewReport("", nil, []string{"core/" + pod})
	checkRows(t, func(w io.Writer) error { return Canary.Write(w, "table", left) }, []string{"po/" + pod})
}

// checkRows writes a table to terminals and to a pipe. Each row begins with cells that no other one has, and has a whole
// name; the rows are in the order of the names.
func checkRows(t *testing.T, write func(io.Writer) error, names []string) {
	t.Helper()
	for _, width := range []int{0, 40, 80, 120, 160} {
		table, _, _ := strings.Cut(onTerminal(t, width, write), "\n\n")
		rows := map[string]bool{}
		var found []string
		for line := range strings.Lines(table) {
			for _, cell := range strings.Fields(line) {
				if name := strings.TrimSuffix(cell, ":7"); slices.Contains(names, name) && !strings.HasPrefix(line, "core/") {
					found = append(found, name)
					rows[line] = true
					break
				}
			}
		}
		if !slices.Equal(found, names) || len(rows) != len(names) {
			t.Errorf("on a terminal of %d characters the rows are %q:\n%s", width, found, table)
		}
	}
}

// TestTextsAreWhole writes tables whose last column is a text: it continues in further lines, and has all its words.
func TestTextsAreWhole(t *testing.T) {
	checks, differences := doctorReport(t), verifyReport(t)
	for name, test := range map[string]struct {
		write func(io.Writer) error
		texts []string
	}{
		"doctor": {func(w io.Writer) error { return Doctor.Write(w, "table", checks) }, messagesOf(checks.Checks)},
		"verify": {func(w io.Writer) error { return Verify.Write(w, "table", differences) }, []string{differences.Differences[0].Message}},
	} {
		printed := onTerminal(t, 110, test.write)
		table, _, _ := strings.Cut(printed, "\n\n")
		checkWidth(t, table, 110)
		words := map[string]bool{}
		for word := range strings.FieldsSeq(table) {
			words[word] = true
		}
		for _, text := range test.texts {
			for word := range strings.FieldsSeq(text) {
				if !words[word] {
					t.Errorf("%s lacks the word %s of %q:\n%s", name, word, text, table)
				}
			}
		}
	}
}

func messagesOf(findings []translate.Finding) (out []string) {
	for _, f := range findings {
		out = append(out, f.Message)
	}
	return out
}

// checkWidth fails the test if a line is longer than the terminal, and not one long word such as an image.
func checkWidth(t *testing.T, table string, width int) {
	t.Helper()
	for line := range strings.Lines(table) {
		if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); width > 0 && n > width && len(strings.Fields(line)) > 1 {
			t.Errorf("a line of %d characters on a terminal of %d: %s", n, width, line)
		}
	}
}
