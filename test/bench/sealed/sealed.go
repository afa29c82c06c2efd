// Package sealed gives one goroutine a network and mounts of its own, in which
// CNI plugins can run without anything of it being seen on the machine, and
// without anything being left when the process dies.
package sealed

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// World is the network and the mounts. Its methods, and everything that is to
// happen in it, are for the goroutine that made it.
type World struct {
	dir  string
	home int // the network namespace that plugins are run in
}

// Enter moves the calling goroutine into a world of its own, for ever: the
// goroutine must end without unlocking its thread, which takes the namespaces
// along. Processes that it starts are in there too. dir is an empty directory
// below which sandboxes are mounted.
func Enter(dir string) (*World, error) {
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_NEWNET); err != nil {
		return nil, fmt.Errorf("unsharing mounts and network: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("keeping mounts private: %w", err)
	}
	if err := unix.Mount("sandboxes", dir, "tmpfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mounting a place for sandboxes: %w", err)
	}
	home, err := unix.Open(ownNetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the new network namespace: %w", err)
	}
	return &World{dir: dir, home: home}, nil
}

const ownNetNS = "/proc/thread-self/ns/net"

// Close lets go of all sandboxes.
func (w *World) Close() error {
	if err := unix.Unmount(w.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the sandboxes: %w", err)
	}
	return unix.Close(w.home)
}

// Master makes an interface that macvlan can sit on.
func (w *World) Master(name string) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	for _, end := range []string{veth.Name, veth.PeerName} {
		link, err := netlink.LinkByName(end)
		if err != nil {
			return fmt.Errorf("finding %s: %w", end, err)
		}
		if err := netlink.LinkSetUp(link); err != nil {
			return fmt.Errorf("setting %s up: %w", end, err)
		}
	}
	return nil
}

// Sandbox makes a network namespace and returns its path, which is a mount as
// those of container runtimes are.
func (w *World) Sandbox(name string) (path string, err error) {
	path = filepath.Join(w.dir, name)
	if err := os.WriteFile(path, nil, 0o600); err != nil {
		return "", err
	}
	if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
		return "", fmt.Errorf("making a network namespace: %w", err)
	}
	mountErr := unix.Mount(ownNetNS, path, "", unix.MS_BIND, "")
	if err := unix.Setns(w.home, unix.CLONE_NEWNET); err != nil {
		return "", fmt.Errorf("going back home: %w", err)
	}
	if mountErr != nil {
		return "", fmt.Errorf("mounting network namespace %s: %w", name, mountErr)
	}
	return path, nil
}
