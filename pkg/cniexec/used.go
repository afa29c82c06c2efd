package cniexec

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
)

// digested is a file of a plugin as it was when its digest was computed.
type digested struct {
	file   fileTimes
	digest string
}

// fileTimes tells a file from what it was before. The modification time alone is what an archive says.
type fileTimes struct {
	device, inode     uint64
	size              int64
	modified, changed unix.Timespec
}

// digestOf returns the digest of a file, as it was computed if the file is the same one, of that size and time: a plugin
// may have tens of megabytes. It refuses a file that no image may have.
func (r *Runner) digestOf(path string) (string, error) {
	var s unix.Stat_t
	if err := unix.Stat(path, &s); err != nil {
		return "", err
	}
	if s.Size > maxProgramBytes {
		return "", fmt.Errorf("%s has more than %d MiB", path, maxProgramBytes>>20)
	}
	now := fileTimes{s.Dev, s.Ino, s.Size, s.Mtim, s.Ctim}
	if k, known := r.digests.Load(path); known && k.(digested).file == now {
		return k.(digested).digest, nil
	}
	file, err := os.Open(path)
	if err != nil {
		return "", err
	}
	digest, err := digestOf(file)
	if err == nil {
		r.digests.Store(path, digested{now, digest})
	}
	return digest, err
}

// used returns the files of a chain's plugins and of their IPAM plugins, as PATH@sha256:DIGEST with the file's
// own path in the host. It leaves out a file that it cannot read: the attachment is no worse.
func (r *Runner) used(list *libcni.NetworkConfigList) (out []string) {
	for _, p := range list.Plugins {
		for _, name := range []string{p.Network.Type, p.Network.IPAM.Type} {
			found, err := r.exec.FindInPath(name, r.dirs)
			if err != nil {
				continue
			}
			inside, err := securejoin.SecureJoin(r.exec.root, found)
			if err != nil {
				continue
			}
			digest, err := r.digestOf(inside)
			file := filepath.Join("/", strings.TrimPrefix(inside, filepath.Clean(r.exec.root))) + "@sha256:" + digest
			if err == nil && !slices.Contains(out, file) {
				out = append(out, file)
			}
		}
	}
	return out
}
