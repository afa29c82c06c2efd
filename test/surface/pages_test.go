package surface

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// least is how many lines each kind has at least, so that a page in another form is no surface without it.
var least = map[string]int{"annotation": 10, "attribute": 15, "command": 6, "finding": 150, "flag": 200, "label": 5, "metric": 30, "object": 4, "reason": 80, "taint": 2}

// names returns a line for each name of the reference pages and each reason.
func names(t *testing.T) (out []string) {
	t.Helper()
	add := func(kind string, of ...string) { out = append(out, kind+" "+strings.TrimSpace(strings.Join(of, " "))) }
	for _, r := range reason.All() {
		add("reason", string(r.Code))
	}
	for _, row := range rows(t, "names.md") {
		kind := map[string]string{
			"Labels": "label", "Annotations": "annotation", "Taints": "taint", "Attributes and capacities of devices": "attribute", "Names of objects": "object",
		}[row.section]
		switch kind {
		case "object":
			add(kind, row.cells[0]+":", row.code(1))
		case "":
			t.Errorf("names.md has the section %s, which is of no kind", row.section)
		default:
			for _, name := range code.FindAllStringSubmatch(row.cells[0], -1) {
				add(kind, name[1], "of", row.cells[1])
			}
		}
	}
	for _, row := range rows(t, "flags.md") {
		add("flag", row.section, row.code(0), row.cells[1], row.code(2))
	}
	for _, row := range rows(t, "metrics.md") {
		if strings.HasPrefix(row.code(0), "nadra_") {
			add("metric", row.code(0), row.cells[1], "of the", row.cells[2])
		}
	}
	for _, m := range regexp.MustCompile("(?m)^`(nadra-node [^`]+)`, for ").FindAllStringSubmatch(page(t, "flags.md"), -1) {
		add("command", m[1])
	}
	for _, m := range regexp.MustCompile(`(?m)^  (-\w+)(?: (\w+))?$`).FindAllStringSubmatch(page(t, "flags.md"), -1) {
		add("flag", "nadra-gate", m[1], m[2])
	}
	command := ""
	for line := range strings.SplitSeq(page(t, "cli.md"), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			command = heading
		}
		if m := regexp.MustCompile(`^ +(?:-(\w), )?(--[\w-]+)(?: (\S+))?  `).FindStringSubmatch(line); m != nil {
			add("flag", command, m[2], m[3])
		}
	}
	found := map[string]bool{}
	for _, name := range []string{"findings.md", "checks.md", "verify-codes.md", "../migrate/upgrade-blockers.md", "../install/uninstall.md", "../operate/cleanup.md"} {
		for _, id := range regexp.MustCompile(`NADRA-\d{3}`).FindAllString(page(t, name), -1) {
			if !found[id] {
				found[id] = true
				add("finding", id)
			}
		}
	}
	count := map[string]int{}
	for _, line := range out {
		kind, _, _ := strings.Cut(line, " ")
		count[kind]++
	}
	for kind, n := range least {
		if count[kind] < n {
			t.Errorf("found only %d lines of kind %s", count[kind], kind)
		}
	}
	return out
}

// code matches text in the form of code.
var code = regexp.MustCompile("`([^`]+)`")

// row is a row of a table.
type row struct {
	section string
	cells   []string
}

// code returns the first text of a cell in the form of code, or nothing.
func (r row) code(cell int) string {
	if m := code.FindStringSubmatch(r.cells[cell]); m != nil {
		return m[1]
	}
	return ""
}

// page returns a page of docs/reference.
func page(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "reference", filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// rows returns the rows of the tables of a page, without those of headings.
func rows(t *testing.T, name string) (out []row) {
	t.Helper()
	section := ""
	for line := range strings.SplitSeq(page(t, name), "\n") {
		if heading, ok := strings.CutPrefix(line, "## "); ok {
			section = heading
		}
		switch {
		case strings.HasPrefix(line, "| ---"):
			out = out[:len(out)-1] // the heading
		case strings.HasPrefix(line, "| "):
			cells := strings.Split(strings.Trim(strings.ReplaceAll(line, `\|`, "¦"), "|"), "|")
			for i := range cells {
				cells[i] = strings.TrimSpace(cells[i])
			}
			out = append(out, row{section, cells})
		}
	}
	return out
}
