package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"

	"golang.org/x/text/encoding/unicode"
)

// Limits of what a command reads. A larger input is a wrong path, or must be split.
const (
	// maxFile limits the bytes of a file, of standard input and of an address.
	maxFile = 64 << 20
	// maxFiles limits the number of a command's files.
	maxFiles = 50_000
	// maxDepth limits the levels of a folder.
	maxDepth = 64
)

// maxTotal limits the bytes of all files of a command. A test lowers it.
var maxTotal = 512 << 20

// readFile reads a file that the user names: also a pipe, as the shell's <(command) makes it.
// It refuses more than 64 MiB, which a device may have without end.
func readFile(name string) ([]byte, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	text, err := limited(f, name)
	return text, errors.Join(err, f.Close())
}

// readDocument reads and parses a file that the user names. Without a name it returns the zero value. what names the document in errors.
func readDocument[T any](what, name string, parse func([]byte) (T, error)) (out T, err error) {
	if name == "" {
		return out, nil
	}
	text, err := readFile(name)
	if err != nil {
		return out, fmt.Errorf("reading %s: %w", what, err)
	}
	if out, err = parse(inUTF8(text)); err != nil {
		return out, fmt.Errorf("reading %s %s: %w", what, name, err)
	}
	return out, nil
}

// limited reads everything, and refuses more than maxFile.
func limited(from io.Reader, name string) ([]byte, error) {
	text, err := io.ReadAll(io.LimitReader(from, maxFile+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", name, err)
	case len(text) > maxFile:
		return nil, fmt.Errorf("reading %s: it has more than %d MiB: split it, or name another file", name, maxFile>>20)
	}
	return text, nil
}

// inUTF8 returns a text that may be in UTF-16 with a byte order mark, as PowerShell writes it.
func inUTF8(text []byte) []byte {
	if bytes.HasPrefix(text, []byte("\xff\xfe")) || bytes.HasPrefix(text, []byte("\xfe\xff")) {
		if decoded, err := unicode.UTF16(unicode.LittleEndian, unicode.ExpectBOM).NewDecoder().Bytes(text); err == nil {
			return decoded
		}
	}
	return text
}

// readInside reads a file of a folder. It refuses a symbolic link that leads out of the folder, and
// everything but regular files, whose content may have no end.
func readInside(root *os.Root, name string) ([]byte, error) {
	full := filepath.Join(root.Name(), name)
	info, err := root.Stat(name) // opening a pipe would wait, and opening a device may change it
	if err != nil {
		return nil, outside(root, name, err)
	}
	if !info.Mode().IsRegular() {
		return nil, fmt.Errorf("reading %s: it is not a regular file but %s: remove it, or name the files to read", full, info.Mode().Type())
	}
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, outside(root, name, err)
	}
	defer func() { _ = f.Close() }()
	if info, err := f.Stat(); err != nil || !info.Mode().IsRegular() {
		return nil, errors.Join(fmt.Errorf("reading %s: it was replaced by something that is not a regular file: try again", full), err)
	}
	return limited(f, full)
}

// outside explains the error of a file of a folder, which may be a link that leads out of it.
func outside(root *os.Root, name string, err error) error {
	full := filepath.Join(root.Name(), name)
	if info, linkErr := root.Lstat(name); linkErr == nil && info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("reading %s: the symbolic link leads to no file inside %s: remove it, or name a folder that has both: %w", full, root.Name(), err)
	}
	return fmt.Errorf("reading %s: %w", full, err)
}
