// Package cleanuphost cleans up the node that it runs on, as package orphan decides. It
// reads what is in use from the container runtime, the kernel and nadra's checkpoint. If
// one of them does not answer, it frees nothing.
package cleanuphost

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/orphan"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// Options control a run. All paths are the host's.
type Options struct {
	// Root is the host's root directory as the process sees it.
	Root string
	// StateDir is nadra's, RuntimeDir libcni's default, MultusDir Multus' cniDir.
	StateDir, RuntimeDir, MultusDir string
	BinDirs                         []string
	// LeaseDirs contain host-local's directories, one for each network.
	LeaseDirs []string
	Policy    orphan.NodePolicy
	// Apply frees orphans.
	Apply bool
	// Ready is called between reading all facts and freeing the first orphan.
	Ready func() error
	// DELTimeout limits a DEL.
	DELTimeout time.Duration

	// Sandboxes returns the IDs of the container runtime's sandboxes.
	Sandboxes func(context.Context) ([]string, error)
	// VFs returns the host's virtual functions.
	VFs func() ([]probe.VF, error)
	// Addresses returns the addresses of all network namespaces.
	Addresses func() (InUse, error)
}

// cache is a cache of libcni.
type cache struct {
	owner orphan.Owner
	dir   string // its parent directory, in the host
}

// node is one run.
type node struct {
	Options
	report  orphan.NodeReport
	facts   orphan.NodeFacts
	runners map[orphan.Owner]*cniexec.Runner
	// cached has the caches' entries by their paths in the host.
	cached map[string]entry
}

type entry struct {
	owner orphan.Owner
	cniexec.Cached
}

// Run reports the node's orphans and, with Options.Apply, frees them. If the node cannot
// be judged, the report has the reason.
func Run(ctx context.Context, o Options) orphan.NodeReport {
	n := &node{
		Options: o, report: orphan.NodeReport{Sandboxes: []string{}, Orphans: []orphan.Orphan{}},
		runners: map[orphan.Owner]*cniexec.Runner{}, cached: map[string]entry{},
	}
	if err := n.readFacts(ctx); err != nil {
		n.report.Refused = err.Error()
		return n.report
	}
	orphans, kept := orphan.Decide(n.facts, o.Policy)
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

// readFacts reads the facts in the order that orphan.NodeFacts requires.
func (n *node) readFacts(ctx context.Context) error {
	for _, c := range []cache{
		{orphan.Nadra, filepath.Join(n.StateDir, "cni")},
		{orphan.Multus, n.MultusDir},
		{orphan.Runtime, n.RuntimeDir},
	} {
		if err := n.readCache(c); err != nil {
			return err
		}
	}
	n.readNotes()
	n.readLeases()
	if err := n.readCheckpoint(); err != nil {
		return err
	}
	vfs, err := n.VFs()
	n.failed("listing virtual functions", err)
	n.facts.VFs = vfs
	inUse, err := n.Addresses()
	if err != nil {
		n.facts.Incomplete = err.Error()
	}
	n.facts.InUse = inUse
	ids, err := n.Sandboxes(ctx)
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

// failed adds an error to the report, unless a file does not exist.
func (n *node) failed(doing string, err error) {
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		n.report.Errors = append(n.report.Errors, fmt.Sprintf("%s: %v", doing, err))
	}
}

// inside returns a path of the host as the process sees it.
func (n *node) inside(path string) (string, error) { return securejoin.SecureJoin(n.Root, path) }

func (n *node) list(path string) []fs.DirEntry {
	inside, err := n.inside(path)
	var entries []fs.DirEntry
	if err == nil {
		entries, err = os.ReadDir(inside)
	}
	n.failed("listing "+path, err)
	return entries
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
		n.facts.Attachments = append(n.facts.Attachments, orphan.Attachment{
			Owner: c.owner, File: path, Network: e.Network, ID: e.ContainerID, IfName: e.Interface,
			Pod: e.Pod, Age: time.Since(e.Written), NetNS: e.NetNSExists, Device: deviceOf(e.Config),
		})
	}
	return nil
}

// readNotes reads the names of Multus' files, which are sandbox IDs.
func (n *node) readNotes() {
	for _, e := range n.list(n.MultusDir) {
		info, err := e.Info()
		if err != nil || !info.Mode().IsRegular() || !isID(e.Name()) {
			continue
		}
		n.facts.Notes = append(n.facts.Notes, orphan.Note{File: filepath.Join(n.MultusDir, e.Name()), ID: e.Name(), Age: time.Since(info.ModTime())})
	}
}

// isID reports whether a name is a sandbox ID in the format of container runtimes.
func isID(name string) bool { return len(name) == 64 && strings.Trim(name, "0123456789abcdef") == "" }

// readCheckpoint reads the sandboxes and functions in nadra's checkpoint. It fails if a
// record is damaged, because that may be the record of anything on the node.
func (n *node) readCheckpoint() error {
	dir, err := n.inside(n.StateDir)
	if err != nil {
		return err
	}
	records, dels, err := checkpoint.Read(dir)
	if err != nil {
		return reason.Errorf(reason.CheckpointUnreadable, "reading nadra's checkpoint: %w: nadra's driver puts damaged files aside when it starts", err)
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
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("checking whether nadra's driver runs: %w", err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	switch {
	case errors.Is(err, unix.EWOULDBLOCK):
		return true, nil
	case err != nil:
		return false, fmt.Errorf("checking whether nadra's driver runs: %w", err)
	}
	return false, nil
}
