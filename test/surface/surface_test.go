package surface

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
)

const (
	root = "../.."
	// released has the version of the last release in its first line, and then its lines.
	released = "released.txt"
	// begin and end enclose the changes in the changelog.
	begin = "<!-- surface: go test ./test/surface -update -->\n"
	end   = "<!-- /surface -->\n"
	// none is the version before the first release.
	none = "none"
)

// TestSurface checks that the changelog lists each change since the last release. With -update it writes the list and, once
// the changelog has a newer version, takes the lines for those of the release.
func TestSurface(t *testing.T) {
	now := slices.Concat(shapes(t), names(t), written(t), layouts(t))
	slices.Sort(now)
	now = slices.Compact(now)
	codes := regexp.MustCompile(`(?m)^  (\d)  `).FindAllStringSubmatch(page(t, "cli.md"), -1)
	if len(codes) == 0 {
		t.Error("docs/reference/cli.md has no exit codes")
	}
	for _, code := range codes {
		if i, _ := slices.BinarySearch(now, "exit "+code[1]); i == len(now) || !strings.HasPrefix(now[i], "exit "+code[1]+" ") {
			t.Errorf("docs/reference/cli.md has the exit code %s, which the code lacks", code[1])
		}
	}
	changelog, err := os.ReadFile(filepath.Join(root, "CHANGELOG.md"))
	if err != nil {
		t.Fatal(err)
	}
	version := latest(string(changelog))
	before, err := os.ReadFile(released)
	if was, _, _ := strings.Cut(string(before), "\n"); err != nil || was != version {
		before = []byte(version + "\n" + strings.Join(now, "\n") + "\n")
		golden.Check(t, released, string(before))
	}
	lines := strings.Split(strings.TrimSpace(string(before)), "\n")[1:]
	golden.CheckPart(t, filepath.Join(root, "CHANGELOG.md"), begin, end, changes(lines, now))
}

// latest returns the newest version of the changelog, or none.
func latest(changelog string) string {
	if m := regexp.MustCompile(`(?m)^## \[(\d\S*)\]`).FindStringSubmatch(changelog); m != nil {
		return m[1]
	}
	return none
}

// changes returns a list item for each line that only one side has. Both are sorted.
func changes(before, now []string) string {
	var out strings.Builder
	item := func(verb, line string) { out.WriteString("* " + verb + ": `" + line + "`\n") }
	for _, line := range before {
		if _, found := slices.BinarySearch(now, line); !found {
			item("removed", line)
		}
	}
	for _, line := range now {
		if _, found := slices.BinarySearch(before, line); !found {
			item("added", line)
		}
	}
	return out.String()
}

// TestChanges checks that changed lines are listed, and others are not.
func TestChanges(t *testing.T) {
	got := changes([]string{"flag a 1", "flag b", "label c"}, []string{"flag a 2", "flag b", "label c"})
	if want := "* removed: `flag a 1`\n* added: `flag a 2`\n"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	if v := latest("## [Unreleased]\n## [0.2.0] - 2027-01-01\n## [0.1.0]\n"); v != "0.2.0" {
		t.Errorf("the latest version is %q", v)
	}
}
