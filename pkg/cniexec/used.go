package cniexec

import (
	"encoding/json"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// digests remembers the digests of plugins' files, by their paths: a plugin may have tens of megabytes.
type digests struct {
	mu    sync.Mutex
	known map[string]digested
}

// digested is a file as it was when its digest was computed.
type digested struct {
	info   fs.FileInfo
	digest string
}

// of returns the digest of a file, as it was computed if the file is the same one, of that size and time.
func (d *digests) of(path string) (string, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	info, err := os.Stat(path)
	if err != nil {
		return "", err
	}
	if k, is := d.known[path]; is && os.SameFile(k.info, info) && k.info.Size() == info.Size() && k.info.ModTime().Equal(info.ModTime()) {
		return k.digest, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	digest, err := digestOf(file)
	if err == nil {
		d.known[path] = digested{info, digest}
	}
	return digest, err
}

// used returns the files of a configuration's plugins and of their IPAM plugins, as PATH@sha256:DIGEST with the file's
// own path in the host. It leaves out a file that it cannot read: the attachment is no worse.
func (r *Runner) used(conflist json.RawMessage) (out []string) {
	for _, p := range attachment.PluginsOf(conflist) {
		for _, name := range []string{p.Type, p.IPAM.Type} {
			found, err := r.exec.FindInPath(name, r.dirs)
			if err != nil {
				continue
			}
			inside, err := securejoin.SecureJoin(r.exec.root, found)
			if err != nil {
				continue
			}
			digest, err := r.digests.of(inside)
			file := filepath.Join("/", strings.TrimPrefix(inside, filepath.Clean(r.exec.root))) + "@sha256:" + digest
			if err == nil && !slices.Contains(out, file) {
				out = append(out, file)
			}
		}
	}
	return out
}
