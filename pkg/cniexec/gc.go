package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

// Errors of GC that say that nothing was done, and why.
var (
	// ErrForeignAttachments means that another runtime of this node has, or
	// may have, attachments of the network. Their plugins would take them for
	// stale.
	ErrForeignAttachments = errors.New("another runtime has attachments of this network")
	// ErrPluginsRunning means that an ADD or DEL was under way, of which GC
	// cannot know whether the attachment is valid. It may be tried again.
	ErrPluginsRunning = errors.New("CNI plugins are running")
)

// Orphan is an attachment that the cache still has and nobody else.
type Orphan struct {
	// Network is the name in the CNI configuration.
	Network     string
	ContainerID string
	// Interface is the name in the sandbox.
	Interface string
	// Config is the CNI configuration that ADD was given.
	Config json.RawMessage

	cached cached
}

// Orphans returns the attachments of our own cache that valid does not know
// and whose network namespace is gone. One whose namespace is still there may
// be of a running pod whose record was damaged; it is left alone.
//
// A file of the cache that cannot be read is left as it is and reported in the
// error; the orphans returned beside it are good. An ADD that is under way may
// be seen as such a file.
func (r *Runner) Orphans(valid func(containerID, ifName string) bool) ([]Orphan, error) {
	all, err := r.Cached()
	var orphans []Orphan
	for _, c := range all {
		if !c.There && !valid(c.ContainerID, c.Interface) {
			orphans = append(orphans, c.Orphan)
		}
	}
	return orphans, err
}

// Cached is an attachment of our own cache, for which DelOrphan can be asked
// once it is known to be an orphan.
type Cached struct {
	Orphan
	// File is the path of its file in the cache, Written when it was written.
	File    string
	Written time.Time
	// There says that its network namespace exists.
	There bool
	// Pod is whose it is, as namespace/name; empty where that is not known.
	Pod string
}

// Cached returns the attachments of our own cache. A file that cannot be read is
// reported in the error; the attachments returned beside it are good.
func (r *Runner) Cached() ([]Cached, error) {
	all, err := readCache(r.results(), "")
	out := make([]Cached, 0, len(all))
	for _, c := range all {
		out = append(out, Cached{
			Orphan: Orphan{Network: c.Network, ContainerID: c.ContainerID, Interface: c.IfName, Config: c.Config, cached: c},
			File:   c.file, Written: c.written, There: r.netnsExists(c.NetNS), Pod: c.pod(),
		})
	}
	return out, err
}

// pod is whose attachment it is, by what the runtime has told the plugins.
func (c cached) pod() string {
	args := map[string]string{}
	for _, arg := range c.Args {
		args[arg[0]] = arg[1]
	}
	if args["K8S_POD_NAME"] == "" {
		return ""
	}
	return args["K8S_POD_NAMESPACE"] + "/" + args["K8S_POD_NAME"]
}

// DelOrphan runs DEL with what ADD was given: configuration, arguments and
// capability arguments from the cache, and the result, which libcni takes from
// there itself. There is no network namespace. Success removes the orphan from
// the cache.
func (r *Runner) DelOrphan(ctx context.Context, o Orphan) error {
	list, err := libcni.NetworkConfFromBytes(o.cached.Config)
	if err != nil {
		return fmt.Errorf("reading the cached conflist: %w", err)
	}
	r.running.RLock()
	defer r.running.RUnlock()
	if err := r.del(ctx, list, o.cached.runtimeConf("")); err != nil {
		return err
	}
	var info string
	if json.Unmarshal(o.cached.CapabilityArgs[infoCapability], &info) != nil {
		return nil // of a cache from before nadra gave it
	}
	return r.removeInfo(info)
}

// GC tells the plugins of a conflist which attachments of its network there
// are, for them to release whatever else they hold (CNI specification 1.1.0,
// § "GC"): those in valid and all that are in our own cache. It is nothing
// for a conflist of an earlier version, one with disableGC, and a plugin that
// does not know the verb. It deletes no attachment: see Orphans.
//
// valid must have every attachment of a network of this CNI name, also those
// that were begun and never finished. It may have others.
//
// GC does nothing and returns ErrForeignAttachments when the cache of another
// runtime on this node has an attachment of this CNI name; ErrPluginsRunning
// when this Runner is at work, and makes work that comes wait until it is done;
// and another error when a file of our cache cannot be read, as that may be an
// attachment too.
func (r *Runner) GC(ctx context.Context, conflist json.RawMessage, valid []types.GCAttachment) error {
	list, err := libcni.NetworkConfFromBytes(conflist)
	if err != nil {
		return fmt.Errorf("reading the conflist: %w", err)
	}
	if known, err := speaks(list, "1.1.0"); err != nil || !known || list.DisableGC {
		return err
	}
	if !r.running.TryLock() {
		return ErrPluginsRunning
	}
	defer r.running.Unlock()
	if err := r.noForeign(list.Name); err != nil {
		return err
	}
	if valid, err = r.withCached(valid, list.Name); err != nil {
		return fmt.Errorf("finding the valid attachments of CNI network %s: %w", list.Name, err)
	}
	// libcni begins its GC by DELs of what is cached and not valid, with a
	// configuration that may be another NAD's. It gets no cache, and so nothing
	// to delete.
	return r.asking(&optional{hostExec: r.exec, verb: "GC"}).GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: valid})
}

// withCached adds the cached attachments of the network, sorted, each once.
// The result is never nil, which libcni would render as null.
func (r *Runner) withCached(valid []types.GCAttachment, network string) ([]types.GCAttachment, error) {
	ours, err := readCache(r.results(), network+"-")
	if err != nil {
		return nil, err
	}
	all := append([]types.GCAttachment{}, valid...)
	for _, c := range ours {
		if c.Network == network {
			all = append(all, types.GCAttachment{ContainerID: c.ContainerID, IfName: c.IfName})
		}
	}
	slices.SortFunc(all, func(a, b types.GCAttachment) int {
		return strings.Compare(a.ContainerID+" "+a.IfName, b.ContainerID+" "+b.IfName)
	})
	return slices.Compact(all), nil
}

// noForeign returns ErrForeignAttachments, with the file that says so, when
// the cache of another runtime has an attachment of the network. A file in it
// that cannot be read, or is of the form before cniCacheV1, counts by its
// name, which begins with the network's.
func (r *Runner) noForeign(network string) error {
	for _, dir := range r.foreign {
		inside, err := r.inHost(dir)
		if err != nil {
			return err
		}
		entries, err := os.ReadDir(inside)
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("reading the CNI cache of another runtime: %w", err)
		}
		for _, e := range entries {
			if !strings.HasPrefix(e.Name(), network+"-") {
				continue
			}
			c, err := readCached(filepath.Join(inside, e.Name()))
			if gone := errors.Is(err, fs.ErrNotExist); !gone && (err != nil || c.Network == network) {
				return fmt.Errorf("CNI network %s: %w: %s", network, ErrForeignAttachments, filepath.Join(dir, e.Name()))
			}
		}
	}
	return nil
}

// results is where libcni keeps our attachments.
func (r *Runner) results() string { return filepath.Join(r.cacheDir, "results") }
