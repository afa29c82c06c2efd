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
	root := filepath.Join("..", "..")
	there := map[string]bool{}
	err := filepath.WalkDir(root, func(path string, _ fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_test.go") {
			return err
		}
		source, err := os.ReadFile(path)
		for _, m := range regexp.MustCompile(`(?m)^func (Test\w+)\(`).FindAllSubmatch(source, -1) {
			there[string(m[1])] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
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
