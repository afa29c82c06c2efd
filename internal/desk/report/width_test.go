package report

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// narrowTerminal is a terminal of some columns.
type narrowTerminal struct {
	strings.Builder
	width int
}

func (t *narrowTerminal) Width() int { return t.width }

// TestTableFits writes the table to terminals: no line is longer than the terminal, as far as its columns have room,
// and a file's name is whole or absent.
func TestTableFits(t *testing.T) {
	file := strings.Repeat("folder/", 12) + "web.yaml"
	w := translate.Verdict{
		Object:   translate.ObjectRef{Kind: "Deployment", Namespace: "core", Name: strings.Repeat("long", 12)},
		Position: translate.Position{File: file, Line: 7}, Readiness: translate.Ready, Networks: []string{"core/" + strings.Repeat("net", 16)},
	}
	r := Build(Input{Files: 1, Result: translate.Result{Workloads: []translate.Verdict{w}}})
	for width, whole := range map[int]bool{300: true, 120: false, 80: false} {
		out := &narrowTerminal{width: width}
		if err := writeTable(out, r); err != nil {
			t.Fatal(err)
		}
		table, _, _ := strings.Cut(out.String(), "\n\n")
		for line := range strings.Lines(table) {
			if n := utf8.RuneCountInString(strings.TrimSuffix(line, "\n")); n > width {
				t.Errorf("a line of %d characters on a terminal of %d: %s", n, width, line)
			}
		}
		if got := strings.Contains(table, file+":7"); got != whole || got != strings.Contains(table, fileColumn) {
			t.Errorf("on a terminal of %d characters the table is\n%s", width, table)
		}
	}
}
