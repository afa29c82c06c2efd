package report

import (
	"io"
	"os"
	"strings"
	"testing"
	"unicode/utf8"

	"golang.org/x/sys/unix"

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

// TestTableFits writes the table to terminals: no line is longer than the terminal, as far as its columns have room,
// and a file's name is whole or absent.
func TestTableFits(t *testing.T) {
	file := strings.Repeat("folder/", 12) + "web.yaml"
	w := translate.Verdict{
		Object:   translate.ObjectRef{Kind: "Deployment", Namespace: "core", Name: strings.Repeat("long", 12)},
		Position: translate.Position{File: file, Line: 7}, Readiness: translate.Ready, Networks: []string{"core/" + strings.Repeat("net", 16)},
	}
	r := Build(Input{Files: 1, Result: translate.Result{Workloads: []translate.Verdict{w}}})
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
		printed := onTerminal(t, 90, test.write)
		table, _, _ := strings.Cut(printed, "\n\n")
		checkWidth(t, table, 90)
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
