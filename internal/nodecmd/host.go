// Package nodecmd runs the commands of nadra-node that look at the node or at a canary's pod, or
// change the node: probe, cleanup, uninstall and canary. Their reports are in package probe.
// Probes change nothing, and what is, or may be, in use is not an orphan. A canary needs no privilege:
// it sends ICMP echo by the kernel's ping sockets, which the pod's sysctl net.ipv4.ping_group_range
// permits, and otherwise datagrams to the other canary.
package nodecmd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
)

// host reads the host's files.
type host struct {
	// root is the host's root directory as the process sees it.
	root string
	// errors lists what could not be read, and why.
	errors []string
}

// failed records an error, unless a file does not exist.
func (h *host) failed(doing string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		h.errors = append(h.errors, fmt.Sprintf("%s: %v", doing, err))
	}
}

// inside returns a path of the host as the process sees it. It resolves symbolic links in the
// host's root.
func (h *host) inside(path string) (string, error) { return securejoin.SecureJoin(h.root, path) }

// list lists a directory, sorted by name. found reports whether it could be listed.
func (h *host) list(path string) (entries []fs.DirEntry, found bool) {
	inside, err := h.inside(path)
	if err == nil {
		entries, err = os.ReadDir(inside)
	}
	h.failed("listing "+path, err)
	return entries, err == nil
}

// readCheckpoint reads the records and pending DELs of nadra's driver. It fails if one is
// damaged, because that may be the record of anything on the node.
func readCheckpoint(stateDir string) ([]checkpoint.Record, []checkpoint.PendingDEL, error) {
	records, dels, err := checkpoint.Read(stateDir)
	if err != nil {
		return nil, nil, reason.Errorf(reason.CheckpointUnreadable, "reading nadra's checkpoint: %w: nadra's driver puts damaged files aside when it starts", err)
	}
	return records, dels, nil
}

// lockState locks the state directory, LOCK_SH or LOCK_EX. held reports that a driver holds it.
func lockState(dir string, how int) (release func(), held bool, err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, false, nil
	}
	if err != nil {
		return nil, false, err
	}
	err = unix.Flock(int(f.Fd()), how|unix.LOCK_NB)
	if err != nil {
		_ = f.Close()
		held = errors.Is(err, unix.EWOULDBLOCK)
	}
	if held {
		err = reason.Errorf(reason.DriverRunning, "nadra's driver still runs on the node: delete its DaemonSet")
	}
	return func() { f.Close() }, held, err
}
