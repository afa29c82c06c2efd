package nodecmd

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/atomicfile"
)

// lockFile is the file in a network's directory that host-local locks.
const lockFile = "lock"

// maxLease limits the bytes of an address' file.
const maxLease = 4 << 10

// readLeases reads host-local's addresses: each network's directory has a file for each
// address, with the sandbox ID and the interface in a line each.
func (n *node) readLeases() {
	var dirs []string
	for _, parent := range n.LeaseDirs {
		networks, _ := n.list(parent)
		for _, e := range networks {
			if e.IsDir() {
				dirs = append(dirs, filepath.Join(parent, e.Name()))
			}
		}
	}
	for _, dir := range n.NetworkDirs { // including networks with a dataDir
		if !slices.Contains(dirs, dir) {
			dirs = append(dirs, dir)
		}
	}
	for _, dir := range dirs {
		n.readLeasesOf(dir)
	}
}

func (n *node) readLeasesOf(dir string) {
	files, _ := n.list(dir)
	for _, e := range files {
		address, err := netip.ParseAddr(e.Name())
		if err != nil {
			continue // the lock, or the last address of a range
		}
		path := filepath.Join(dir, e.Name())
		inside, err := n.inside(path)
		if err != nil {
			n.failed("reading "+path, err)
			continue
		}
		id, ifName, written, err := readLease(inside)
		if err != nil {
			n.failed("reading "+path, err)
			continue
		}
		n.facts.Leases = append(n.facts.Leases, lease{
			File: path, Dir: dir, Address: address.Unmap(), ID: id, IfName: ifName, Age: time.Since(written),
		})
	}
}

func readLease(path string) (id, ifName string, written time.Time, err error) {
	info, err := os.Stat(path)
	if err != nil {
		return "", "", written, err
	}
	content, err := atomicfile.Read(path, maxLease)
	if err != nil {
		return "", "", written, err
	}
	id, ifName, _ = strings.Cut(string(content), "\n")
	return strings.TrimSpace(id), strings.TrimSpace(ifName), info.ModTime(), nil
}

// releaseLease removes an address' file under host-local's own lock, if the address still
// belongs to the sandbox. It reports whether the file existed.
func releaseLease(path, id string) (bool, error) {
	lock, err := os.OpenFile(filepath.Join(filepath.Dir(path), lockFile), os.O_RDWR|os.O_CREATE, 0o644)
	if err != nil {
		return false, fmt.Errorf("opening host-local's lock: %w", err)
	}
	defer lock.Close() // which unlocks it
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return false, fmt.Errorf("taking host-local's lock: %w", err)
	}
	now, _, _, err := readLease(path)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return false, nil // a DEL released it
	case err != nil:
		return false, err
	case now != id:
		return false, fmt.Errorf("sandbox %.12s has the address now: it stays", now)
	}
	return true, os.Remove(path)
}

// deviceOf returns the PCI address in a conflist, if any.
func deviceOf(conflist json.RawMessage) string {
	var list struct {
		DeviceID string `json:"deviceID"`
		Plugins  []struct {
			DeviceID string `json:"deviceID"`
		} `json:"plugins"`
	}
	if json.Unmarshal(conflist, &list) != nil {
		return ""
	}
	for _, p := range list.Plugins {
		if p.DeviceID != "" {
			return p.DeviceID
		}
	}
	return list.DeviceID
}
