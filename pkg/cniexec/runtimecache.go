package cniexec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/atomicfile"
)

// RuntimeEntry returns what a container runtime's cache of libcni has of a sandbox's default network,
// which runtimes attach as eth0. It returns nil if a directory has no entry, or several. dir is a path of
// this process.
func RuntimeEntry(dir, sandboxID string) (*CacheEntry, error) {
	files, err := runtimeFiles(dir, sandboxID)
	if err != nil || len(files) != 1 {
		return nil, err
	}
	entry, err := readCacheEntry(files[0])
	if err != nil {
		return nil, err
	}
	return &entry, nil
}

// runtimeFiles returns the files of a runtime's cache for a sandbox's eth0. libcni names a file
// <network>-<container ID>-<interface>.
func runtimeFiles(dir, sandboxID string) (files []string, err error) {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("finding the runtime's result of sandbox %s: %w", sandboxID, err)
	}
	for _, e := range entries { // filepath.Glob takes 20 times as long
		if strings.HasSuffix(e.Name(), "-"+sandboxID+"-eth0") {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// DefaultNetwork returns the container runtime's entry of a sandbox's default network, as RuntimeEntry.
func (o otherCaches) DefaultNetwork(sandboxID string) (*CacheEntry, error) {
	dir, err := inHost(o.hostRoot, o.foreign[ofRuntime])
	if err != nil {
		return nil, err
	}
	return RuntimeEntry(dir, sandboxID)
}

// ForgetDefaultRoutes removes the default routes from the result that the container runtime
// keeps for a sandbox's interface eth0. CRI-O runs CHECK with that result when it starts, and
// plugins look for every route of it: a sandbox that fails has no addresses then, and the
// kubelet replaces its pod. It is no error if there is no result, and routes that the sandbox
// has and the result has not fail no CHECK. So nobody puts the routes back.
func (o otherCaches) ForgetDefaultRoutes(sandboxID string) error {
	dir, err := inHost(o.hostRoot, o.foreign[ofRuntime])
	if err != nil {
		return err
	}
	files, err := runtimeFiles(dir, sandboxID)
	if err != nil {
		return err
	}
	for _, file := range files {
		if err := forgetDefaultRoutes(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("removing default routes from the runtime's result %s: %w", file, err)
		}
	}
	return nil
}

// forgetDefaultRoutes edits one file of a cache. It overwrites the file with one write of the
// same length, padded with spaces: for the runtime, a temporary file beside it would be
// another attachment.
func forgetDefaultRoutes(path string) error {
	before, err := atomicfile.Read(path, maxCacheFile)
	if err != nil {
		return err
	}
	after, err := withoutDefaultRoutes(before)
	if err != nil || after == nil {
		return err
	}
	if len(after) > len(before) {
		return fmt.Errorf("the shorter result has %d bytes, and the file only %d", len(after), len(before))
	}
	file, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = file.WriteAt(append(after, bytes.Repeat([]byte(" "), len(before)-len(after))...), 0)
	return errors.Join(err, file.Close())
}

// withoutDefaultRoutes returns a file of a cache without the default routes of its result, or
// nil if it has none. It keeps everything else.
func withoutDefaultRoutes(content []byte) ([]byte, error) {
	var info, result map[string]json.RawMessage
	if err := json.Unmarshal(content, &info); err != nil {
		return nil, err
	}
	if err := json.Unmarshal(info["result"], &result); err != nil {
		return nil, fmt.Errorf("decoding the result: %w", err)
	}
	var routes []json.RawMessage
	if result["routes"] != nil {
		if err := json.Unmarshal(result["routes"], &routes); err != nil {
			return nil, fmt.Errorf("decoding the routes: %w", err)
		}
	}
	left := slices.DeleteFunc(slices.Clone(routes), isDefaultRoute)
	if len(left) == len(routes) {
		return nil, nil
	}
	var err error
	if result["routes"], err = encode(left); err != nil {
		return nil, err
	}
	if info["result"], err = encode(result); err != nil {
		return nil, err
	}
	return encode(info)
}

// isDefaultRoute reports whether a route of a result has a destination such as 0.0.0.0/0.
func isDefaultRoute(route json.RawMessage) bool {
	var r struct {
		Dst string `json:"dst"`
	}
	if json.Unmarshal(route, &r) != nil {
		return false
	}
	dst, err := netip.ParsePrefix(r.Dst)
	return err == nil && dst.Bits() == 0
}

// encode returns JSON with <, > and & as they are: escapes would make it longer.
func encode(v any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(v)
	return bytes.TrimSpace(out.Bytes()), err
}
