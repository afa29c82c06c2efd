package cniexec

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/types"
)

// Errors of GC if it did nothing.
var (
	// ErrForeignAttachments means that another runtime of this node has, or may have,
	// attachments of the network. The plugins would take these for stale.
	ErrForeignAttachments = errors.New("another runtime has attachments of this network")
	// ErrPluginsRunning means that an ADD or DEL is running, and GC cannot know whether
	// its attachment is valid. The caller may retry.
	ErrPluginsRunning = errors.New("CNI plugins are running")
)

// Orphans returns the attachments in this Runner's cache that valid rejects and whose
// network namespace is gone. It leaves out attachments whose namespace still exists: they
// may belong to a running pod whose record was damaged.
//
// The error is about files of the cache that cannot be read; they stay as they are, and
// the other orphans are returned all the same. The file of a running ADD may be one of
// them.
func (r *Runner) Orphans(valid func(containerID, ifName string) bool) ([]Cached, error) {
	all, err := r.Cached()
	var orphans []Cached
	for _, c := range all {
		if !c.NetNSExists && !valid(c.ContainerID, c.IfName) {
			orphans = append(orphans, c)
		}
	}
	return orphans, err
}

// Cached is an attachment in a Runner's cache. DelOrphan deletes it if the caller knows
// that it is an orphan.
type Cached struct {
	CacheEntry
	// NetNSExists is true if its network namespace exists.
	NetNSExists bool
}

// Cached returns the attachments in this Runner's cache. The error is about files that
// cannot be read; the other attachments are returned all the same.
func (r *Runner) Cached() ([]Cached, error) {
	all, err := readCache(r.results(), "")
	out := make([]Cached, 0, len(all))
	for _, c := range all {
		out = append(out, Cached{CacheEntry: c, NetNSExists: r.netnsExists(c.NetNS)})
	}
	return out, err
}

// PodName returns the attachment's pod as namespace/name from the plugins' arguments, or "".
func (c CacheEntry) PodName() string {
	pod := c.Pod()
	if pod.Name == "" {
		return ""
	}
	return pod.Namespace + "/" + pod.Name
}

// DelOrphan runs DEL with what ADD was given, without a network namespace. Configuration,
// arguments and capability arguments come from the cache, and so does the result, which
// libcni reads itself. Success removes the orphan from the cache.
func (r *Runner) DelOrphan(ctx context.Context, o Cached) error {
	list, err := libcni.NetworkConfFromBytes(o.Config)
	if err != nil {
		return fmt.Errorf("reading the cached conflist: %w", err)
	}
	r.running.RLock()
	defer r.running.RUnlock()
	if err := r.del(ctx, list, o.runtimeConf(""), o.NetNS); err != nil {
		return err
	}
	var info string
	if json.Unmarshal(o.CapabilityArgs[infoCapability], &info) != nil {
		return nil // written before nadra passed this capability
	}
	return r.removeInfo(info)
}

// GC runs the plugins of a conflist with the attachments of its network that exist, so
// that they release everything else (CNI specification 1.1.0, § "GC"). These are the
// attachments in valid and all in this Runner's cache. GC does nothing if the conflist
// has an earlier version or disableGC, and skips plugins without this verb. It deletes no
// attachment: see Orphans.
//
// valid must have every attachment of a network with this CNI name, also those that were
// begun and never finished. It may have others.
//
// GC does nothing and returns ErrForeignAttachments if the cache of another runtime on
// this node has an attachment with this CNI name, ErrPluginsRunning if this Runner runs
// plugins, and another error if a file of this Runner's cache cannot be read, because it
// may be an attachment, too. Plugins that are to run meanwhile wait until GC has ended.
func (r *Runner) GC(ctx context.Context, conflist json.RawMessage, valid []types.GCAttachment) error {
	list, err := libcni.NetworkConfFromBytes(conflist)
	if err != nil {
		return invalidConflist(err)
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
	if valid, err = withCached(r.results(), valid, list.Name); err != nil {
		return fmt.Errorf("finding the valid attachments of CNI network %s: %w", list.Name, err)
	}
	// libcni begins its GC with DELs of attachments that are cached and not valid, with a
	// configuration that may belong to another NAD. Without a cache it finds none.
	return r.asking(&optional{hostExec: r.exec, verb: "GC"}).GCNetworkList(ctx, list, &libcni.GCArgs{ValidAttachments: valid})
}

// withCached adds the attachments of the network in a directory of libcni's cache, sorted and without duplicates.
// It never returns nil, which libcni would render as null.
func withCached(dir string, valid []types.GCAttachment, network string) ([]types.GCAttachment, error) {
	ours, err := readCache(dir, network+"-")
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

// results returns the directory in which libcni keeps this Runner's attachments.
func (r *Runner) results() string { return filepath.Join(r.cacheDir, "results") }
