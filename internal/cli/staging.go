package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
)

// staging is a set of files to write. Most errors occur before the first file is replaced.
type staging map[string][]byte

// read returns the new content of a file, or nil if there is none.
func (s staging) read(name string) ([]byte, error) {
	if text, staged := s[name]; staged {
		return text, nil
	}
	text, err := os.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// write replaces the files. It replaces the target of a symbolic link, and keeps modes.
func (s staging) write() (err error) {
	temporary := map[string]string{}
	defer func() {
		for _, name := range temporary {
			_ = os.Remove(name)
		}
	}()
	names := slices.Sorted(maps.Keys(s))
	for _, name := range names {
		if temporary[name], err = stage(name, s[name]); err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	for _, name := range names {
		if err := os.Rename(temporary[name], target(name)); err != nil {
			return fmt.Errorf("writing %s: %w: files before it in alphabetical order are written, others are not", name, err)
		}
		delete(temporary, name)
	}
	return nil
}

// target resolves symbolic links.
func target(name string) string {
	if resolved, err := filepath.EvalSymlinks(name); err == nil {
		return resolved
	}
	return name
}

// stage writes a text to a temporary file beside the file that it will replace.
func stage(name string, text []byte) (string, error) {
	name = target(name)
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return "", err
	}
	mode := fs.FileMode(0o644)
	if info, err := os.Stat(name); err == nil {
		mode = info.Mode().Perm()
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".nadra-*")
	if err != nil {
		return "", err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Chmod(mode), f.Close())
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return f.Name(), err
}
