package cli

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
)

// TestStagingKeepsOwner replaces another user's file, and checks that it stays that user's.
func TestStagingKeepsOwner(t *testing.T) {
	if os.Getuid() != 0 {
		t.Skip("only root may give files away")
	}
	folder := t.TempDir()
	name := filepath.Join(folder, "web.yaml")
	if err := os.WriteFile(name, []byte("old"), 0o640); err != nil {
		t.Fatal(err)
	}
	if err := os.Chown(name, 1234, 1235); err != nil {
		t.Fatal(err)
	}
	s := newStaging(folder)
	s.files[name] = []byte("new")
	if err := s.write(); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil {
		t.Fatal(err)
	}
	if is := info.Sys().(*syscall.Stat_t); is.Uid != 1234 || is.Gid != 1235 || info.Mode().Perm() != 0o640 {
		t.Errorf("owner %d:%d, mode %v", is.Uid, is.Gid, info.Mode())
	}
}

// TestWriteFile checks that an archive does not become readable by others because its name was used
// before, and that a symbolic link stays one.
func TestWriteFile(t *testing.T) {
	folder := t.TempDir()
	name, link := filepath.Join(folder, "a"), filepath.Join(folder, "link")
	if err := os.WriteFile(name, nil, 0o644); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("a", link); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(link, []byte("new"), 0o600); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(name)
	if err != nil || info.Mode().Perm() != 0o600 || info.Size() != 3 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Lstat(link); err != nil || info.Mode().Type() != os.ModeSymlink {
		t.Errorf("%v, %v", info, err)
	}
}
