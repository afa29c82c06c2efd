package cli

import (
	"bytes"
	"crypto/rand"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// staging is a set of files to write into folders. Most errors occur before the first file is
// replaced. Nothing is read or written outside of the folders, whatever symbolic links say.
type staging struct {
	folders []string
	files   map[string][]byte
	// note, unless nil, is called with what the user has to do by hand.
	note func(string)
}

// newStaging returns a staging without files.
func newStaging(folders ...string) staging {
	return staging{folders: folders, files: map[string][]byte{}}
}

// place opens the folder that has a file, and returns the file's path in it, without symbolic links.
func (s staging) place(name string) (*os.Root, string, error) {
	for _, folder := range s.folders {
		rel, err := filepath.Rel(folder, name)
		if err != nil || !filepath.IsLocal(rel) {
			continue
		}
		root, err := os.OpenRoot(folder)
		if err != nil {
			return nil, "", err
		}
		if target, err := filepath.EvalSymlinks(name); err == nil {
			real, err := filepath.EvalSymlinks(folder)
			if err == nil {
				rel, err = filepath.Rel(real, target)
			}
			if err != nil || !filepath.IsLocal(rel) {
				return nil, "", errors.Join(fmt.Errorf("it is a symbolic link that leads out of %s: name a folder that has both", folder), err, root.Close())
			}
		}
		return root, rel, nil
	}
	return nil, "", fmt.Errorf("it is outside of %s", strings.Join(s.folders, ", "))
}

// read returns the new content of a file, or nil if there is none.
func (s staging) read(name string) ([]byte, error) {
	if text, staged := s.files[name]; staged {
		return text, nil
	}
	return s.onDisk(name)
}

// onDisk returns the present content of a file, or nil if there is none.
func (s staging) onDisk(name string) ([]byte, error) {
	if _, err := os.Lstat(name); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	root, rel, err := s.place(name)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", name, err)
	}
	text, err := readInside(root, rel)
	return text, errors.Join(err, root.Close())
}

// recordFile lists what convert wrote to a directory, as sha256sum does: the next run may replace it.
const recordFile = ".nadra.sum"

// writeOutput writes the files to a directory of their own. It refuses to replace what no earlier run wrote, or
// somebody edited since, and to write a kustomization beside another one.
func (s staging) writeOutput(folder string) error {
	record := filepath.Join(folder, recordFile)
	text, err := s.onDisk(record)
	if err != nil {
		return err
	}
	own := map[string]string{}
	for line := range strings.Lines(string(text)) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		own[name] = sum
	}
	for name, text := range s.files {
		rel := relative(record, name)
		old, err := s.onDisk(name)
		switch {
		case err != nil:
			return err
		case old != nil && !bytes.Equal(old, text) && own[rel] != sum(old):
			return fmt.Errorf("writing %s: it exists, and convert did not write it, or it was edited since: move it away, or name another directory", name)
		}
		own[rel] = sum(text)
		if err := s.onlyKustomization(name); err != nil {
			return err
		}
	}
	var lines strings.Builder
	for _, name := range slices.Sorted(maps.Keys(own)) {
		fmt.Fprintf(&lines, "%s  %s\n", own[name], name)
	}
	s.files[record] = []byte(lines.String())
	return s.write()
}

// onlyKustomization refuses a kustomization in a folder that has one with another name: kustomize refuses both.
func (s staging) onlyKustomization(name string) error {
	for _, base := range translate.KustomizationFiles() {
		other := filepath.Join(filepath.Dir(name), base)
		if _, staged := s.files[other]; staged || !translate.IsKustomization(name) {
			continue
		}
		if text, err := s.onDisk(other); text != nil || err != nil {
			return errors.Join(fmt.Errorf("writing %s: the directory has %s, too: move it away, or name another directory", name, base), err)
		}
	}
	return nil
}

// sum returns the checksum of a file.
func sum(text []byte) string { return fmt.Sprintf("%x", sha256.Sum256(text)) }

// staged is a temporary file beside the file that it will replace.
type staged struct {
	root            *os.Root
	temporary, name string
}

// write replaces the files. It replaces the target of a symbolic link, and keeps modes and owners.
func (s staging) write() (err error) {
	var all []staged
	defer func() {
		for _, f := range all {
			_ = f.root.Remove(f.temporary) // gone, if it has replaced its file
			_ = f.root.Close()
		}
	}()
	for _, folder := range s.folders {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return fmt.Errorf("writing files: %w", err)
		}
	}
	names, taken := slices.Sorted(maps.Keys(s.files)), map[string]string{}
	for _, name := range names {
		key := name
		if runtime.GOOS != "linux" { // the usual file systems of macOS and Windows ignore case
			key = strings.ToLower(name)
		}
		if taken[key] != "" {
			return fmt.Errorf("writing %s: only its case distinguishes it from %s: rename one of them", name, taken[key])
		}
		taken[key] = name
		f, err := s.stage(name)
		if f.root != nil {
			all = append(all, f)
		}
		if err != nil {
			return fmt.Errorf("writing %s: %w", name, err)
		}
	}
	for i, f := range all {
		if err := f.root.Rename(f.temporary, f.name); err != nil {
			return fmt.Errorf("writing %s: %w: files before it in alphabetical order are written, others are not", names[i], err)
		}
	}
	return nil
}

// stage writes a file's new content to a temporary file.
func (s staging) stage(name string) (staged, error) {
	root, rel, err := s.place(name)
	if err != nil {
		return staged{}, err
	}
	out := staged{root: root, name: rel, temporary: filepath.Join(filepath.Dir(rel), ".nadra-"+rand.Text())}
	if err := root.MkdirAll(filepath.Dir(rel), 0o755); err != nil {
		return out, err
	}
	old, err := root.Lstat(rel)
	switch {
	case err == nil && !old.Mode().IsRegular():
		return out, fmt.Errorf("it is not a regular file but %s: remove it", old.Mode().Type())
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return out, err
	}
	mode := fs.FileMode(0o644)
	if old != nil {
		mode = old.Mode().Perm()
	}
	f, err := root.OpenFile(out.temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return out, err
	}
	_, err = f.Write(s.files[name])
	if old != nil && err == nil {
		err = keepOwner(f, old)
	}
	return out, errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
}

// write writes a document to a file that the user names; - is standard output. Other users of the machine can
// read the file if its mode says so. what names the document in errors.
func (a *app) write(what, name string, text []byte, mode fs.FileMode) error {
	var err error
	if name == "-" {
		_, err = a.Out.Write(text)
	} else {
		err = writeFile(name, text, mode)
	}
	if err != nil {
		return fmt.Errorf("writing %s: %w", what, err)
	}
	return nil
}

// writeFile writes a file that the user names, whole or not at all. It does not widen the mode of a
// file that exists. A pipe or a device is written as it is.
func writeFile(name string, text []byte, mode fs.FileMode) error {
	info, err := os.Stat(name)
	switch {
	case err == nil && !info.Mode().IsRegular():
		return os.WriteFile(name, text, mode)
	case err == nil:
		mode &= info.Mode().Perm()
		if name, err = filepath.EvalSymlinks(name); err != nil {
			return err
		}
	}
	return atomicfile.Write(name, text, mode)
}
