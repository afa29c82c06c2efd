package inventory

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sysfs reads a tree of small files. Its methods return a zero value for a file that does not
// exist or cannot be read: sysfs has files that only return "not supported", and functions
// disappear while they are read.
type sysfs struct {
	root string
	// buf has the size of a page, which no file of sysfs exceeds. Without it, a scan of a
	// thousand functions would leave tens of megabytes of garbage.
	buf [4096]byte
}

// value returns the content of a file without the newline.
func (s *sysfs) value(path string) string {
	path = s.root + "/" + path
	fd, err := retry(func() (int, error) { return unix.Open(path, unix.O_RDONLY|unix.O_CLOEXEC, 0) })
	if err != nil {
		return ""
	}
	defer func() { _ = unix.Close(fd) }()
	n, err := retry(func() (int, error) { return unix.Read(fd, s.buf[:]) })
	if err != nil || n <= 0 {
		return ""
	}
	return strings.TrimSpace(string(s.buf[:n]))
}

// retry repeats a call that a signal interrupted. The Go runtime sends signals.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// number returns the number in a file, or otherwise if there is none.
func (s *sysfs) number(path string, otherwise int) int {
	n, err := strconv.Atoi(s.value(path))
	if err != nil {
		return otherwise
	}
	return n
}

// target returns the target of a symbolic link without resolving it.
func (s *sysfs) target(path string) string {
	n, err := unix.Readlink(s.root+"/"+path, s.buf[:])
	if err != nil {
		return ""
	}
	return string(s.buf[:n])
}

// base returns the last element of a symbolic link's target.
func (s *sysfs) base(path string) string {
	target := s.target(path)
	if target == "" {
		return ""
	}
	return filepath.Base(target)
}

// names returns the sorted names in a directory. It uses system calls: package os makes twice
// as many of them, and most directories of a function are short.
func (s *sysfs) names(path string) []string {
	path = s.root + "/" + path
	fd, err := retry(func() (int, error) {
		return unix.Open(path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	})
	if err != nil {
		return nil
	}
	defer func() { _ = unix.Close(fd) }()
	var names []string
	for {
		n, err := retry(func() (int, error) { return unix.ReadDirent(fd, s.buf[:]) })
		if err != nil || n <= 0 {
			break
		}
		_, _, names = unix.ParseDirent(s.buf[:n], -1, names)
	}
	slices.Sort(names)
	return names
}

// exists reports whether a file exists.
func (s *sysfs) exists(path string) bool {
	var stat unix.Stat_t
	return unix.Lstat(s.root+"/"+path, &stat) == nil
}
