package inventory

import (
	"errors"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// sysfs reads a tree of small files. All of it answers with nothing for what is
// not there or cannot be read: sysfs has files that exist and yet say "not
// supported", and functions go while they are read.
type sysfs struct {
	root string
	// buf is of one page, which no file of sysfs exceeds: a scan of a thousand
	// functions would else leave tens of megabytes for the collector.
	buf [4096]byte
}

// value is the content of a file without the newline.
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

// retry repeats a call that a signal interrupted: the Go runtime sends some.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// number is the value of a file, and otherwise where it has none.
func (s *sysfs) number(path string, otherwise int) int {
	n, err := strconv.Atoi(s.value(path))
	if err != nil {
		return otherwise
	}
	return n
}

// target is where a symbolic link points to, as it is written.
func (s *sysfs) target(path string) string {
	n, err := unix.Readlink(s.root+"/"+path, s.buf[:])
	if err != nil {
		return ""
	}
	return string(s.buf[:n])
}

// base is the last element of where a symbolic link points to.
func (s *sysfs) base(path string) string {
	target := s.target(path)
	if target == "" {
		return ""
	}
	return filepath.Base(target)
}

// names are those in a directory, sorted. It asks the kernel itself: package os
// takes twice the calls, and most directories of a function are short.
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

// exists says whether there is such a file.
func (s *sysfs) exists(path string) bool {
	var stat unix.Stat_t
	return unix.Lstat(s.root+"/"+path, &stat) == nil
}
