package atomicfile

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestWrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"one", "two"} {
		if err := Write(path, []byte(content), 0o640); err != nil {
			t.Fatal(err)
		}
		if got, err := os.ReadFile(path); err != nil || string(got) != content {
			t.Errorf("the file has %q (%v), want %q", got, err, content)
		}
	}
	if info, err := os.Stat(path); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("the file is %v (%v), want mode 0640", info, err)
	}
	if entries, err := os.ReadDir(filepath.Dir(path)); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v), want the file only", entries, err)
	}
}

// TestMkdirAll makes directories that are missing, that exist, and that cannot be made.
func TestMkdirAll(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "a", "b", "c")
	for range 2 {
		if err := MkdirAll(dir, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	if info, err := os.Stat(dir); err != nil || !info.IsDir() || info.Mode().Perm() != 0o700 {
		t.Errorf("it is %v (%v), want a directory of mode 0700", info, err)
	}
	file := filepath.Join(dir, "file")
	if err := Write(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{file, filepath.Join(file, "below")} {
		if MkdirAll(path, 0o700) == nil {
			t.Errorf("%s was made", path)
		}
	}
}

// TestRemoveForGood removes a file that is there, and one that is not.
func TestRemoveForGood(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := Write(path, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := RemoveForGood(path); err != nil {
			t.Error(err)
		}
	}
	if _, err := os.Stat(path); !os.IsNotExist(err) {
		t.Errorf("it is there: %v", err)
	}
}

// TestWriteFails replaces a directory, which rename refuses: nothing stays behind.
func TestWriteFails(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "directory")
	if err := os.Mkdir(path, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := Write(path, []byte("one"), 0o640); err == nil {
		t.Error("a directory was replaced")
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the directory has %v (%v), want what it had", entries, err)
	}
}

func TestRemoveTemporary(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"a", "a.tmp-1", "a.tmp-2", "b.tmp-1"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := RemoveTemporary(filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	left, err := filepath.Glob(filepath.Join(dir, "*"))
	if want := []string{filepath.Join(dir, "a"), filepath.Join(dir, "b.tmp-1")}; err != nil || !slices.Equal(left, want) {
		t.Errorf("the directory has %q (%v), want %q", left, err, want)
	}
}

func TestIsTemporary(t *testing.T) {
	for name, want := range map[string]bool{"a.json": false, "/x.tmp-1/a.json": false, "/x/a.json.tmp-123": true} {
		if got := IsTemporary(name); got != want {
			t.Errorf("%s: %t", name, got)
		}
	}
}

// TestReadHasALimit checks that a file beyond the limit is refused, and one at it read.
func TestReadHasALimit(t *testing.T) {
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte("12345"), 0o600); err != nil {
		t.Fatal(err)
	}
	if data, err := Read(path, 5); err != nil || string(data) != "12345" {
		t.Errorf("got %q, %v", data, err)
	}
	if _, err := Read(path, 4); err == nil {
		t.Error("a file of 5 bytes is read with a limit of 4")
	}
}
