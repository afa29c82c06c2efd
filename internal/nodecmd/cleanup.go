package nodecmd

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// CleanupOptions control a cleanup. All paths are the host's.
type CleanupOptions struct {
	// Root is the host's root directory as the process sees it.
	Root string
	// NRISocket is the NRI socket of the container runtime.
	NRISocket string
	// StateDir is nadra's, RuntimeDir libcni's default, MultusDir Multus' cniDir.
	StateDir, RuntimeDir, MultusDir string
	BinDirs                         []string
	// LeaseDirs contain host-local's directories, one for each network.
	LeaseDirs []string
	// OlderThan is the minimum age of an orphan: the runtime does not list a sandbox that is
	// just being created.
	OlderThan time.Duration
	// NetworkDirs are host-local's directories of the networks of NetworkAttachmentDefinitions.
	NetworkDirs []string
	// AllCNI also frees leftovers of the cluster's default network.
	AllCNI bool
	// Apply frees orphans.
	Apply bool
	// Ready is called between reading all facts and freeing the first orphan.
	Ready func() error
	// DELTimeout limits a DEL.
	DELTimeout time.Duration

	// For tests: the IDs of the container runtime's sandboxes, the host's virtual functions,
	// and the addresses of all network namespaces. Nil means those of the host.
	sandboxes func(context.Context) ([]string, error)
	vfs       func() ([]probe.VF, error)
	addresses func() (inUse, error)
}

// cache is a cache of libcni.
type cache struct {
	owner owner
	dir   string // its parent directory, in the host
}

// node is one run.
type node struct {
	CleanupOptions
	host
	report  probe.OrphanReport
	facts   nodeFacts
	runners map[owner]*cniexec.Runner
	// cached has the caches' entries by their paths in the host.
	cached map[string]entry
}

type entry struct {
	owner owner
	cniexec.Cached
}

// Cleanup reports the node's orphans and frees them if o.Apply is set. It reads
// what is in use from the container runtime, the kernel and nadra's checkpoint. If one of
// them does not answer, it frees nothing, and the report has the reason.
func Cleanup(ctx context.Context, o CleanupOptions) probe.OrphanReport {
	if o.sandboxes == nil {
		o.sandboxes = func(ctx context.Context) ([]string, error) { return listSandboxes(ctx, o.Root, o.NRISocket) }
		o.vfs = hostVFs(o.Root)
		o.addresses = func() (inUse, error) { return usedAddresses(o.Root) }
	}
	n := &node{
		CleanupOptions: o, host: host{root: o.Root}, report: probe.OrphanReport{Sandboxes: []string{}, Orphans: []probe.Orphan{}},
		runners: map[owner]*cniexec.Runner{}, cached: map[string]entry{},
	}
	err := n.readFacts(ctx)
	n.report.Errors = n.errors
	if err != nil {
		n.report.Refused = err.Error()
		return n.report
	}
	orphans, kept := decide(n.facts, o)
	n.report.Orphans, n.report.Kept = append(n.report.Orphans, orphans...), kept
	if !o.Apply || len(n.report.Orphans) == 0 {
		return n.report
	}
	if err := o.Ready(); err != nil {
		n.report.Refused = err.Error()
		return n.report
	}
	n.free(ctx)
	return n.report
}

// readFacts reads the facts in the order that nodeFacts requires.
func (n *node) readFacts(ctx context.Context) error {
	for _, c := range []cache{
		{ownerNadra, filepath.Join(n.StateDir, "cni")},
		{ownerMultus, n.MultusDir},
		{ownerRuntime, n.RuntimeDir},
	} {
		if err := n.readCache(c); err != nil {
			return err
		}
	}
	n.readNotes()
	n.readLeases()
	if err := n.readRecords(); err != nil {
		return err
	}
	vfs, err := n.vfs()
	n.failed("listing virtual functions", err)
	n.facts.VFs = vfs
	inUse, err := n.addresses()
	if err != nil {
		n.facts.Incomplete = err.Error()
	}
	n.facts.InUse = inUse
	ids, err := n.sandboxes(ctx)
	if err != nil {
		return reason.Errorf(reason.SandboxesUnknown, "%w: enable NRI in the container runtime, or clean up this node by hand", err)
	}
	n.facts.Sandboxes = map[string]bool{}
	for _, id := range ids {
		n.facts.Sandboxes[id] = true
	}
	n.report.Sandboxes = append(n.report.Sandboxes, ids...)
	return nil
}

// readCache reads a cache of libcni. It does not create a missing one.
func (n *node) readCache(c cache) error {
	dir, err := n.inside(c.dir)
	if err != nil {
		return err
	}
	if _, err := os.Stat(filepath.Join(dir, "results")); err != nil {
		n.failed("reading "+c.dir, err)
		return nil
	}
	runner, err := cniexec.New(cniexec.Options{HostRoot: n.Root, BinDirs: n.BinDirs, CacheDir: dir})
	if err != nil {
		return err
	}
	n.runners[c.owner] = runner
	all, err := runner.Cached()
	n.failed("reading "+c.dir, err)
	for _, e := range all {
		path := filepath.Join(c.dir, "results", filepath.Base(e.File))
		n.cached[path] = entry{c.owner, e}
		n.facts.Attachments = append(n.facts.Attachments, cacheEntry{
			Owner: c.owner, File: path, Network: e.Network, ID: e.ContainerID, IfName: e.IfName,
			Pod: e.PodName(), Age: time.Since(e.Written), NetNS: e.NetNSExists, Device: deviceOf(e.Config),
		})
	}
	return nil
}

// readNotes reads the names of Multus' files, which are sandbox IDs.
func (n *node) readNotes() {
	entries, _ := n.list(n.MultusDir)
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !isID(e.Name()) {
			continue
		}
		n.facts.Notes = append(n.facts.Notes, note{File: filepath.Join(n.MultusDir, e.Name()), ID: e.Name(), Age: time.Since(info.ModTime())})
	}
}

// isID reports whether a name is a sandbox ID in the format of container runtimes.
func isID(name string) bool { return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" }

// readRecords reads the sandboxes and functions in nadra's checkpoint.
func (n *node) readRecords() error {
	dir, err := n.inside(n.StateDir)
	if err != nil {
		return err
	}
	records, dels, err := readCheckpoint(dir)
	if err != nil {
		return err
	}
	for _, d := range dels {
		records = append(records, d.Record)
	}
	n.facts.Held, n.facts.HeldVFs = map[string]bool{}, map[string]bool{}
	for _, r := range records {
		if r.Sandbox != nil {
			n.facts.Held[r.Sandbox.ID] = true
		}
		if r.Hardware != nil {
			n.facts.HeldVFs[r.Hardware.PCIAddress] = true
		}
	}
	n.facts.DriverRuns, err = locked(dir)
	return err
}

// locked reports whether a driver holds the state directory.
func locked(dir string) (bool, error) {
	release, held, err := lockState(dir, unix.LOCK_SH)
	switch {
	case held:
		return true, nil
	case err != nil:
		return false, fmt.Errorf("checking whether nadra's driver runs: %w", err)
	}
	release()
	return false, nil
}
