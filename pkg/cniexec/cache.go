package cniexec

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
)

// foreignCaches are the well-known libcni caches of other runtimes, as paths in the host:
// libcni's default, which containerd and CRI-O use, and that of Multus.
var foreignCaches = []string{ofRuntime: "/var/lib/cni/results", "/var/lib/cni/multus/results"}

// ofRuntime is the position of the container runtime's cache among the foreign ones.
const ofRuntime = 0

// cached is one attachment in libcni's cache: the fields of libcni's unexported type
// (libcni/api.go, cachedInfo) that this package needs.
type cached struct {
	Kind           string                     `json:"kind"`
	ContainerID    string                     `json:"containerId"`
	Config         []byte                     `json:"config"`
	IfName         string                     `json:"ifName"`
	Network        string                     `json:"networkName"`
	NetNS          string                     `json:"netns"`
	Args           [][2]string                `json:"cniArgs"`
	CapabilityArgs map[string]json.RawMessage `json:"capabilityArgs"`

	file    string    // path of its file
	written time.Time // when the file was written
}

// runtimeConf returns what ADD was given, with another network namespace.
func (c cached) runtimeConf(netns string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: c.ContainerID, NetNS: netns, IfName: c.IfName, Args: c.Args,
		CapabilityArgs: capabilityArgs(c.CapabilityArgs),
	}
}

// readCache returns the attachments in a libcni cache directory whose file names begin
// with prefix. libcni skips files that it cannot read; readCache joins an error for each
// of them and returns it together with the other attachments.
func readCache(dir, prefix string) ([]cached, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading a CNI cache: %w", err)
	}
	var all []cached
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		c, err := readCached(filepath.Join(dir, e.Name()))
		switch {
		case err == nil:
			all = append(all, c)
		case !errors.Is(err, fs.ErrNotExist): // a DEL may have removed it just now
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// readCached reads one file of a cache.
func readCached(path string) (cached, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return cached{}, fmt.Errorf("reading a cached CNI result: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return cached{}, fmt.Errorf("reading a cached CNI result: %w", err)
	}
	c := cached{file: path, written: info.ModTime()}
	if err := json.Unmarshal(data, &c); err != nil {
		return cached{}, fmt.Errorf("decoding the cached CNI result %s: %w", path, err)
	}
	if c.Kind != libcni.CNICacheV1 || c.Network == "" || c.ContainerID == "" || c.IfName == "" {
		return cached{}, fmt.Errorf("the cached CNI result %s is not of kind %s or lacks the attachment's names", path, libcni.CNICacheV1)
	}
	return c, nil
}
