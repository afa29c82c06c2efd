// Package sealed gives a process its own network and mounts, in which CNI plugins run
// unseen by the machine and leave nothing behind when the process ends. Seal prepares such
// a process; Within prepares one that its caller starts in namespaces of its own. All of it
// is in sealed.go.
package sealed

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"syscall"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// outside is the environment variable that names the namespaces of the process that has
// sealed this one.
const outside = "NADRA_SEALED_FROM"

// Seal makes a command run with a network and mounts of its own.
func Seal(cmd *exec.Cmd) error {
	if err := Within(cmd); err != nil {
		return err
	}
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS | unix.CLONE_NEWNET}
	return nil
}

// Within prepares a command that its caller runs in namespaces other than the machine's,
// which it may share with other processes.
func Within(cmd *exec.Cmd) error {
	ours, err := namespaces()
	if err != nil {
		return err
	}
	cmd.Env = append(cmd.Environ(), outside+"="+ours)
	return nil
}

// namespaces returns the names of this process' mount and network namespaces.
func namespaces() (string, error) {
	mounts, err := os.Readlink("/proc/self/ns/mnt")
	if err != nil {
		return "", err
	}
	network, err := os.Readlink("/proc/self/ns/net")
	return mounts + " " + network, err
}

// ErrNotSealed means that the process has the machine's network or mounts.
var ErrNotSealed = errors.New("this process shares the machine's namespaces")

// World is the network and the mounts of the process. Only the goroutine that made it,
// which keeps its thread, may call its methods; any goroutine may run plugins.
type World struct {
	dir     string
	home    int // the network namespace that plugins are run in
	masters []string
}

// Enter prepares the process' world. It returns ErrNotSealed if the process has the
// machine's. dir is an empty directory below which sandboxes are mounted.
func Enter(dir string) (*World, error) {
	ours, err := namespaces()
	if err != nil {
		return nil, err
	}
	if theirs := os.Getenv(outside); theirs == "" || theirs == ours {
		return nil, ErrNotSealed
	}
	if err := unix.Mount("sandboxes", dir, "tmpfs", 0, ""); err != nil {
		return nil, fmt.Errorf("mounting a place for sandboxes: %w", err)
	}
	runtime.LockOSThread()
	home, err := unix.Open(ownNetNS, unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, fmt.Errorf("opening the network namespace: %w", err)
	}
	return &World{dir: dir, home: home}, nil
}

const ownNetNS = "/proc/thread-self/ns/net"

// Close removes all sandboxes and masters.
func (w *World) Close() error {
	defer runtime.UnlockOSThread()
	// No other link is removed, because other processes may use this network as well.
	for _, name := range w.masters {
		l, err := netlink.LinkByName(name)
		if err == nil {
			err = netlink.LinkDel(l)
		}
		if err != nil {
			return fmt.Errorf("deleting %s: %w", name, err)
		}
	}
	if err := unix.Unmount(w.dir, unix.MNT_DETACH); err != nil {
		return fmt.Errorf("unmounting the sandboxes: %w", err)
	}
	return unix.Close(w.home)
}

// Master creates an interface that can be macvlan's master.
func (w *World) Master(name string) error {
	veth := &netlink.Veth{LinkAttrs: netlink.LinkAttrs{Name: name}, PeerName: name + "p"}
	if err := netlink.LinkAdd(veth); err != nil {
		return fmt.Errorf("adding %s: %w", name, err)
	}
	w.masters = append(w.masters, name)
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

// Sandbox creates a network namespace and returns its path, a mount as container runtimes
// make it.
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
		return "", fmt.Errorf("returning to the first namespace: %w", err)
	}
	if mountErr != nil {
		return "", fmt.Errorf("mounting network namespace %s: %w", name, mountErr)
	}
	return path, nil
}
