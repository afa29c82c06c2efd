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

// TestCheckPart checks that only the part between the marks is compared and rewritten.
func TestCheckPart(t *testing.T) {
	defer func(before bool) { *update = before }(*update)
	path := filepath.Join(t.TempDir(), "page")
	if err := os.WriteFile(path, []byte("before\n[\nold\n]\nafter\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, step := range []struct{ update, fails bool }{{false, true}, {true, false}, {false, false}} {
		*update = step.update
		f := &failures{TB: t}
		CheckPart(f, path, "[\n", "]\n", "new\n")
		if fails := f.count > 0; fails != step.fails {
			t.Errorf("-update %t: fails: %t", step.update, fails)
		}
	}
	if got, _ := os.ReadFile(path); string(got) != "before\n[\nnew\n]\nafter\n" {
		t.Errorf("the file has %q", got)
	}
	f := &failures{TB: t}
	if CheckPart(f, path, "{\n", "}\n", "new\n"); f.count == 0 {
		t.Error("a file without the marks passes")
	}
}
