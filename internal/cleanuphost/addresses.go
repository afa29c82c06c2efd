package cleanuphost

import (
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"
)

// InUse are addresses that some network namespace has.
type InUse map[netip.Addr]bool

// inode identifies a namespace.
type inode struct{ dev, ino uint64 }

// Addresses reads those of all network namespaces of the host: of all processes,
// and of all that are mounted where runtimes do. An error says that one of them
// could not be looked into. It takes SYS_ADMIN and SYS_PTRACE.
func Addresses(root string) (InUse, error) {
	out, seen := InUse{}, map[inode]bool{}
	var errs []error
	for _, pattern := range []string{"proc/[0-9]*/ns/net", "run/netns/*", "run/docker/netns/*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return out, err
		}
		for _, path := range paths {
			if err := addressesAt(path, seen, out); err != nil && !gone(path, err) {
				errs = append(errs, fmt.Errorf("looking into network namespace %s: %w", path, err))
			}
		}
	}
	if len(seen) == 0 {
		errs = append(errs, errors.New("no network namespace was found"))
	}
	return out, errors.Join(errs...)
}

// gone reports that a process has ended meanwhile, or that it never had a
// namespace, as one that waits for its parent.
func gone(path string, err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	_, err = os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

func addressesAt(path string, seen map[inode]bool, out InUse) error {
	var fsys unix.Statfs_t
	if err := unix.Statfs(path, &fsys); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	// A file that is no namespace is where one was, or is to be: what is there by
	// now is too young to have left anything.
	if fsys.Type != unix.NSFS_MAGIC {
		return nil
	}
	var stat unix.Stat_t
	if err := unix.Stat(path, &stat); err != nil {
		return &fs.PathError{Op: "stat", Path: path, Err: err}
	}
	id := inode{uint64(stat.Dev), stat.Ino} //nolint:unconvert // not on all architectures
	if seen[id] {
		return nil
	}
	ns, err := netns.GetFromPath(path)
	if err != nil {
		return err
	}
	defer ns.Close()
	h, err := netlink.NewHandleAt(ns, unix.NETLINK_ROUTE)
	if err != nil {
		return err
	}
	defer h.Close()
	addrs, err := h.AddrList(nil, netlink.FAMILY_ALL)
	if err != nil {
		return fmt.Errorf("listing addresses: %w", err)
	}
	seen[id] = true
	for _, a := range addrs {
		if ip, ok := netip.AddrFromSlice(a.IP); ok {
			out[ip.Unmap()] = true
		}
	}
	return nil
}
