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

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// maxCacheFile limits the bytes of a file in a cache of libcni. It is twice what a configuration and
// arguments at nadra's limits take in it.
const maxCacheFile = 4 << 20

// CacheEntry is one attachment in a cache of libcni, with what ADD was given and what it
// returned: the fields of libcni's unexported type (libcni/api.go, cachedInfo).
type CacheEntry struct {
	Kind           string                     `json:"kind"`
	ContainerID    string                     `json:"containerId"`
	Config         []byte                     `json:"config"`
	IfName         string                     `json:"ifName"`
	Network        string                     `json:"networkName"`
	NetNS          string                     `json:"netns"`
	Args           [][2]string                `json:"cniArgs"`
	CapabilityArgs map[string]json.RawMessage `json:"capabilityArgs"`
	Result         json.RawMessage            `json:"result"`

	// File is the path of its file, and Written the time at which it was written.
	File    string    `json:"-"`
	Written time.Time `json:"-"`
}

// Pod returns the attachment's pod from the plugins' arguments. What they do not name is
// empty.
func (c CacheEntry) Pod() attachment.PodRef {
	args := map[string]string{}
	for _, arg := range c.Args {
		args[arg[0]] = arg[1]
	}
	return attachment.PodRef{Namespace: args["K8S_POD_NAMESPACE"], Name: args["K8S_POD_NAME"], UID: args["K8S_POD_UID"]}
}

// EntryOf returns the entry that libcni writes for an attachment with this result, in a sandbox.
func EntryOf(s attachment.Sandbox, a attachment.Attachment, result json.RawMessage) CacheEntry {
	return CacheEntry{
		Kind: libcni.CNICacheV1, ContainerID: s.ID, Config: a.Conflist, IfName: a.Interface, Network: a.CNIName, NetNS: s.NetNS,
		Args: cniArgs(s, a), CapabilityArgs: a.CapabilityArgs, Result: inVersionOf(a.Conflist, result),
	}
}

// inVersionOf converts a result to the version of a configuration, as libcni stores it: other programs may not
// know a newer one. It returns a result that cannot be converted as it is.
func inVersionOf(conflist, result json.RawMessage) json.RawMessage {
	list, err := libcni.NetworkConfFromBytes(conflist)
	if err != nil {
		return result
	}
	converted, err := resultAs(list.CNIVersion, result)
	if err != nil {
		return result
	}
	if raw, err := json.Marshal(converted); err == nil {
		return raw
	}
	return result
}

// Name returns the name that libcni gives the entry's file.
func (c CacheEntry) Name() string { return c.Network + "-" + c.ContainerID + "-" + c.IfName }

// Forget removes an attachment from this Runner's cache without a DEL, because somebody else deletes
// it.
func (r *Runner) Forget(s attachment.Sandbox, a attachment.Attachment) error {
	if err := atomicfile.Remove(filepath.Join(r.results(), EntryOf(s, a, nil).Name())); err != nil {
		return reason.Errorf(reason.StateNotWritten, "forgetting network %s of sandbox %s: %w", a.Network, s.ID, err)
	}
	return nil
}

// runtimeConf returns what ADD was given, with another network namespace.
func (c CacheEntry) runtimeConf(netns string) *libcni.RuntimeConf {
	return &libcni.RuntimeConf{
		ContainerID: c.ContainerID, NetNS: netns, IfName: c.IfName, Args: c.Args,
		CapabilityArgs: capabilityArgs(c.CapabilityArgs),
	}
}

// ReadCache returns the attachments in a directory of libcni's cache files. It returns an
// error for each file that it cannot read, together with the other attachments.
func ReadCache(dir string) ([]CacheEntry, error) { return readCache(dir, "") }

// readCache returns the attachments in a libcni cache directory whose file names begin
// with prefix. libcni skips files that it cannot read; readCache joins an error for each
// of them and returns it together with the other attachments.
func readCache(dir, prefix string) ([]CacheEntry, error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading a CNI cache: %w", err)
	}
	var all []CacheEntry
	var errs []error
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), prefix) {
			continue
		}
		c, err := readCacheEntry(filepath.Join(dir, e.Name()))
		switch {
		case err == nil:
			all = append(all, c)
		case !errors.Is(err, fs.ErrNotExist): // a DEL may have removed it just now
			errs = append(errs, err)
		}
	}
	return all, errors.Join(errs...)
}

// readCacheEntry reads one file of a cache.
func readCacheEntry(path string) (CacheEntry, error) {
	data, err := atomicfile.Read(path, maxCacheFile)
	if err != nil {
		return CacheEntry{}, fmt.Errorf("reading a cached CNI result: %w", err)
	}
	info, err := os.Stat(path)
	if err != nil {
		return CacheEntry{}, fmt.Errorf("reading a cached CNI result: %w", err)
	}
	c := CacheEntry{File: path, Written: info.ModTime()}
	if err := json.Unmarshal(data, &c); err != nil {
		return CacheEntry{}, fmt.Errorf("decoding the cached CNI result %s: %w", path, err)
	}
	if c.Kind != libcni.CNICacheV1 || c.Network == "" || c.ContainerID == "" || c.IfName == "" {
		return CacheEntry{}, fmt.Errorf("the cached CNI result %s is not of kind %s or lacks the attachment's names", path, libcni.CNICacheV1)
	}
	return c, nil
}
