package golden

import (
	"os"
	"path/filepath"
	"testing"
)

// failures records what Check reports instead of failing the test.
type failures struct {
	testing.TB
	count int
}

func (f *failures) Helper()               {}
func (f *failures) Errorf(string, ...any) { f.count++ }
func (f *failures) Fatalf(string, ...any) { f.count++ }

func TestCheck(t *testing.T) {
	defer func(before bool) { *update = before }(*update)
	path := filepath.Join(t.TempDir(), "golden")
	for _, step := range []struct {
		name, content string
		update, fails bool
	}{
		{"no file", "a\n", false, true},
		{"writes the file", "a\n", true, false},
		{"the same", "a\n", false, false},
		{"another content", "b\n", false, true},
		{"rewrites the file", "b\n", true, false},
		{"the new content", "b\n", false, false},
	} {
		*update = step.update
		f := &failures{TB: t}
		Check(f, path, step.content)
		if fails := f.count > 0; fails != step.fails {
			t.Errorf("%s: fails: %t", step.name, fails)
		}
		if got, _ := os.ReadFile(path); step.update && string(got) != step.content {
			t.Errorf("%s: the file has %q", step.name, got)
		}
	}
}
