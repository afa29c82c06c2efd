// Package atomicfile replaces files so that a reader sees either the old or the new
// content, whole, and reads files of others only up to a limit.
//
// Write, RemoveForGood and MkdirAll have reached the disk when they return. A rename, a removal and a
// new directory do so only with the directory in which the name is. What a power cut may undo
// without harm does not wait for the disk: WriteUnsynced and Remove.
package atomicfile

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

// infix is in the name of every temporary file: <name>.tmp-<number>.
const infix = ".tmp-"

// IsTemporary reports whether a file's name is that of a temporary file, which a crash
// may leave behind.
func IsTemporary(name string) bool { return strings.Contains(filepath.Base(name), infix) }

// Write replaces a file. A power cut after it has returned keeps the new content. After an error, the
// file may have either content.
func Write(path string, data []byte, mode fs.FileMode) error {
	temporary, err := write(path, data, mode, true)
	if err != nil {
		return err
	}
	if err := errors.Join(temporary.Close(), os.Rename(temporary.Name(), path)); err != nil { // Windows renames no open file
		return errors.Join(err, Remove(temporary.Name()))
	}
	return SyncDir(filepath.Dir(path))
}

// WriteUnsynced replaces a file for everybody who reads it from now on and returns it
// open. Until the caller has synced it and its directory, a power cut may leave it torn, or the old
// content in its place.
func WriteUnsynced(path string, data []byte, mode fs.FileMode) (*os.File, error) {
	temporary, err := write(path, data, mode, false)
	if err != nil {
		return nil, err
	}
	if err := os.Rename(temporary.Name(), path); err != nil {
		return nil, errors.Join(err, temporary.Close(), Remove(temporary.Name()))
	}
	return temporary, nil
}

// Try returns the error with which Write would fail, as far as that can be found out without replacing
// the file.
func Try(path string, data []byte, mode fs.FileMode) error {
	if info, err := os.Lstat(path); err == nil && info.IsDir() {
		return &fs.PathError{Op: "replace", Path: path, Err: syscall.EISDIR}
	}
	temporary, err := write(path, data, mode, true)
	if err != nil {
		return err
	}
	return errors.Join(temporary.Close(), Remove(temporary.Name()))
}

// write writes a temporary file beside a path.
func write(path string, data []byte, mode fs.FileMode, sync bool) (*os.File, error) {
	temporary, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+infix+"*")
	if err != nil {
		return nil, err
	}
	_, err = temporary.Write(data)
	if err == nil {
		err = temporary.Chmod(mode)
	}
	if err == nil && sync {
		err = temporary.Sync()
	}
	if err != nil {
		return nil, errors.Join(err, temporary.Close(), Remove(temporary.Name()))
	}
	return temporary, nil
}

// Read returns the content of a file that another program has written. It refuses a file with more bytes
// than limit, so that the program cannot exhaust the memory.
func Read(path string, limit int) ([]byte, error) {
	file, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(io.LimitReader(file, int64(limit)+1))
	if err == nil && len(data) > limit {
		err = fmt.Errorf("reading %s: it has more than %d bytes", path, limit)
	}
	return data, errors.Join(err, file.Close())
}

// RemoveTemporary removes what crashes have left of attempts to replace a file.
func RemoveTemporary(path string) error {
	left, err := filepath.Glob(path + infix + "*")
	for _, file := range left {
		err = errors.Join(err, Remove(file))
	}
	return err
}

// SyncDir makes the names of added and removed files in a directory survive a power cut, except on Windows, which syncs
// no directory.
func SyncDir(dir string) error {
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	if runtime.GOOS == "windows" {
		return d.Close()
	}
	return errors.Join(d.Sync(), d.Close())
}

// MkdirAll makes a directory, with its missing parents. A power cut after it has returned keeps the
// directory. One that exists is synced, too, if it can be: the process that has made it may have died before.
func MkdirAll(dir string, mode fs.FileMode) error {
	parent := filepath.Dir(dir)
	err := os.Mkdir(dir, mode)
	if errors.Is(err, fs.ErrNotExist) && parent != dir {
		if err = MkdirAll(parent, mode); err == nil {
			err = os.Mkdir(dir, mode)
		}
	}
	if info, failed := os.Stat(dir); errors.Is(err, fs.ErrExist) && failed == nil && info.IsDir() {
		_ = SyncDir(parent) // it fails on a read-only disk
		return nil
	}
	if err != nil {
		return err
	}
	return SyncDir(parent)
}

// RemoveForGood removes a file, which no power cut brings back after it has returned. It is no error if
// there is none.
func RemoveForGood(path string) error {
	if err := Remove(path); err != nil {
		return err
	}
	return SyncDir(filepath.Dir(path))
}

// Remove removes a file. It is no error if there is none.
func Remove(path string) error {
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}
