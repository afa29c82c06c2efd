// Package podns opens the network namespaces of pods, and refuses the host's.
// Everything of the node driver that enters a namespace, or has a plugin enter
// it, for a pod comes through here: container runtimes report a namespace for
// pods that use the host's network, too (CRI-O does), and a route or an address
// changed there would be the node's.
package podns

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	"github.com/vishvananda/netns"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
)

var (
	// ErrGone means that a path has no network namespace, or has none any more.
	ErrGone = reason.Errorf(reason.NamespaceGone, "there is no network namespace")
	// ErrHost means that the namespace at a path is the host's.
	ErrHost = reason.Errorf(reason.HostNetwork, "it is the host's network namespace")
)

// ownNamespace is the network namespace of the calling thread.
const ownNamespace = "/proc/thread-self/ns/net"

// Opener opens network namespaces by their paths in the host.
type Opener struct {
	hostRoot string
	// host identifies the host's namespace. The file stays open, so that the
	// kernel gives its identity to no other namespace meanwhile.
	host *os.File
	id   identity
}

// identity identifies a namespace's file on the kernel's nsfs. It is unique among the
// existing namespaces.
type identity struct{ device, inode uint64 }

// New returns an Opener for the paths of a host whose root directory the
// process sees at hostRoot. The calling thread must be in the host's network
// namespace, as a pod with hostNetwork is.
func New(hostRoot string) (*Opener, error) {
	file, err := os.Open(ownNamespace)
	if err != nil {
		return nil, fmt.Errorf("opening the host's network namespace: %w", err)
	}
	id, err := identify(int(file.Fd()))
	if err != nil {
		return nil, errors.Join(fmt.Errorf("identifying the host's network namespace: %w", err), file.Close())
	}
	return &Opener{hostRoot: hostRoot, host: file, id: id}, nil
}

// Open opens the network namespace at a path in the host. It refuses a path
// without a namespace with ErrGone, and the host's own with ErrHost.
func (o *Opener) Open(path string) (netns.NsHandle, error) {
	inside, err := o.inHost(path)
	if err != nil {
		return netns.None(), fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	ns, err := netns.GetFromPath(inside)
	if errors.Is(err, fs.ErrNotExist) {
		return netns.None(), fmt.Errorf("opening network namespace %s: %w: %w", path, ErrGone, err)
	}
	if err != nil {
		return netns.None(), fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	if err := o.accept(ns); err != nil {
		ns.Close()
		return netns.None(), fmt.Errorf("opening network namespace %s: %w", path, err)
	}
	return ns, nil
}

// accept refuses a file unless it is the network namespace of a pod.
func (o *Opener) accept(ns netns.NsHandle) error {
	// The file that a namespace was mounted on outlives it.
	if kind, err := unix.IoctlRetInt(int(ns), unix.NS_GET_NSTYPE); err != nil || kind != unix.CLONE_NEWNET {
		return ErrGone
	}
	id, err := identify(int(ns))
	if err != nil {
		return fmt.Errorf("identifying it: %w", err)
	}
	if id == o.id {
		return ErrHost
	}
	return nil
}

// IsHost reports whether the namespace at a path in the host is the host's own.
// It reports false for a path that cannot be opened.
func (o *Opener) IsHost(path string) bool {
	ns, err := o.Open(path)
	if err == nil {
		ns.Close()
	}
	return errors.Is(err, ErrHost)
}

// inHost returns a path of the host as the process sees it. It does not resolve the last
// part, which may be a link of /proc that only the kernel can follow.
func (o *Opener) inHost(path string) (string, error) {
	dir, err := securejoin.SecureJoin(o.hostRoot, filepath.Dir(path))
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, filepath.Base(path)), nil
}

// identify returns the identity of an open namespace.
func identify(fd int) (identity, error) {
	var s unix.Stat_t
	if err := unix.Fstat(fd, &s); err != nil {
		return identity{}, err
	}
	return identity{device: s.Dev, inode: s.Ino}, nil
}
