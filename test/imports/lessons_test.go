package imports

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// The tests that docs/lessons.md names are there.
func TestLessonsNameTests(t *testing.T) {
	if named := namedTests(t, "lessons.md"); named < 40 {
		t.Errorf("the page names only %d tests", named)
	}
}

// namedTests checks that the tests which a page names exist, and counts them.
func namedTests(t *testing.T, page string) int {
	t.Helper()
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	there := map[string]bool{}
	for _, folder := range []string{"build", "cmd", "internal", "pkg", "test"} {
		err := filepath.WalkDir(filepath.Join("..", "..", folder), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, "_test.go") {
				return err
			}
			source, err := os.ReadFile(path)
			for _, m := range function.FindAllSubmatch(source, -1) {
				there[string(m[1])] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	named := regexp.MustCompile(`Test[A-Z]\w+`).FindAllString(readPage(t, page), -1)
	for _, name := range named {
		if !there[name] {
			t.Errorf("docs/%s names %s, which does not exist", page, name)
		}
	}
	return len(named)
}

func readPage(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", "..", "docs", name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
