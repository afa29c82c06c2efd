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

// staging are files to write, all or none: what fails is found before the
// first of them is replaced.
type staging map[string][]byte

// read returns a file as it will be; nil where there is none.
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

// write replaces the files. A file that is a link stays one: what it leads to
// is replaced. Modes stay.
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
			return fmt.Errorf("writing %s: %w: files before it in the alphabet are written, others are not", name, err)
		}
		delete(temporary, name)
	}
	return nil
}

// target is the file that a name leads to.
func target(name string) string {
	if resolved, err := filepath.EvalSymlinks(name); err == nil {
		return resolved
	}
	return name
}

// stage writes a text beside the file that it is for.
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
