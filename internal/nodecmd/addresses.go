package nodecmd

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

// inUse is the set of addresses of network namespaces.
type inUse map[netip.Addr]bool

// inode identifies a namespace.
type inode struct{ dev, ino uint64 }

// usedAddresses returns the addresses of all network namespaces of the host: of all processes,
// and of all namespaces that are mounted where container runtimes mount them. It returns an
// error, too, if it could not read one of them. It needs SYS_ADMIN and SYS_PTRACE.
func usedAddresses(root string) (inUse, error) {
	out, seen := inUse{}, map[inode]bool{}
	var errs []error
	for _, pattern := range []string{"proc/[0-9]*/ns/net", "run/netns/*", "run/docker/netns/*"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			return out, err
		}
		for _, path := range paths {
			if err := addressesAt(path, seen, out); err != nil && !gone(path, err) {
				errs = append(errs, fmt.Errorf("reading network namespace %s: %w", path, err))
			}
		}
	}
	if len(seen) == 0 {
		errs = append(errs, errors.New("no network namespace was found"))
	}
	return out, errors.Join(errs...)
}

// gone reports whether a process has ended meanwhile, or never had a namespace, as a
// zombie.
func gone(path string, err error) bool {
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ESRCH) {
		return true
	}
	_, err = os.Stat(path)
	return errors.Is(err, fs.ErrNotExist)
}

// addressesAt adds the addresses of the namespace at a path, unless it was read already.
func addressesAt(path string, seen map[inode]bool, out inUse) error {
	var fsys unix.Statfs_t
	if err := unix.Statfs(path, &fsys); err != nil {
		return &fs.PathError{Op: "statfs", Path: path, Err: err}
	}
	// On an ordinary file a namespace was, or will be, mounted. One that is mounted by
	// now is too young to have left anything behind.
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
