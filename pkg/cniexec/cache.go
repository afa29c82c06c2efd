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

// foreignCaches are the well-known libcni caches of other runtimes, paths in
// the host: that of containerd, CRI-O and whoever else keeps libcni's default,
// and that of Multus.
var foreignCaches = []string{"/var/lib/cni/results", "/var/lib/cni/multus/results"}

// cached is one attachment as libcni's cache has it: the fields of libcni's
// own, unexported type (libcni/api.go, cachedInfo) that are needed here.
type cached struct {
	Kind           string                     `json:"kind"`
	ContainerID    string                     `json:"containerId"`
	Config         []byte                     `json:"config"`
	IfName         string                     `json:"ifName"`
	Network        string                     `json:"networkName"`
	NetNS          string                     `json:"netns"`
	Args           [][2]string                `json:"cniArgs"`
	CapabilityArgs map[string]json.RawMessage `json:"capabilityArgs"`

	file    string    // its path
	written time.Time // when
}

// runtimeConf has what ADD was given, with another network namespace.
func (c cached) runtimeConf(netns string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: c.ContainerID, NetNS: netns, IfName: c.IfName, Args: c.Args,
		CapabilityArgs: capabilityArgs(c.CapabilityArgs),
	}
}

// readCache returns the attachments in a libcni cache directory whose files'
// names begin with prefix. libcni passes over files that it cannot read; here
// each is an error, joined with the others, beside the attachments that could
// be read.
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
		case !errors.Is(err, fs.ErrNotExist): // a DEL may have taken it just now
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
