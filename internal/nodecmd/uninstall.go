package nodecmd

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// UninstallOptions control a run. All paths are the host's.
type UninstallOptions struct {
	// Root is the host's root directory as the process sees it.
	Root string
	// StateDir is the directory of nadra's state.
	StateDir string
	// Patterns match nadra's other files and directories.
	Patterns []string
	// Remove removes them, unless records are left.
	Remove bool
}

// Uninstall reports nadra's files and records on the node, and with UninstallOptions.Remove removes the
// files. It removes nothing while the checkpoint has records: they are needed to detach
// networks.
func Uninstall(o UninstallOptions) probe.Remains {
	out := probe.Remains{Records: []probe.Record{}, Paths: []string{}}
	if err := o.run(&out); err != nil {
		out.Error = err.Error()
	}
	return out
}

func (o UninstallOptions) run(out *probe.Remains) error {
	state, err := securejoin.SecureJoin(o.Root, o.StateDir)
	if err != nil {
		return err
	}
	if out.Records, err = records(state); err != nil {
		return err
	}
	paths, err := o.paths()
	if err != nil {
		return err
	}
	for host := range paths {
		out.Paths = append(out.Paths, host)
	}
	if !o.Remove || len(out.Records) > 0 {
		return nil
	}
	release, _, err := lockState(state, unix.LOCK_EX)
	if err != nil {
		return err
	}
	defer release()
	for host, inside := range paths {
		if err := remove(inside); err != nil {
			return fmt.Errorf("removing %s: %w", host, err)
		}
	}
	out.Removed = true
	return nil
}

// remove removes a file or directory. It only empties a mount point.
func remove(path string) error {
	err := os.RemoveAll(path)
	if !errors.Is(err, unix.EBUSY) {
		return err
	}
	if left, readErr := os.ReadDir(path); readErr == nil && len(left) == 0 {
		return nil
	}
	return err
}

// records returns the checkpoint's records, pending DELs, and attachments that only the CNI
// cache has.
func records(state string) ([]probe.Record, error) {
	all, dels, err := readCheckpoint(state)
	if err != nil {
		return nil, err
	}
	out := []probe.Record{}
	held := map[string]bool{}
	add := func(r checkpoint.Record, pendingDEL bool, what string) {
		if r.Sandbox != nil {
			held[r.Sandbox.ID] = true
		}
		of := probe.Record{Pod: r.Pod.String(), What: what, PendingDEL: pendingDEL}
		if !r.Unclaimed() {
			of.Claim = r.Claim.String()
		}
		out = append(out, of)
	}
	for _, r := range all {
		add(r, false, fmt.Sprintf("network %s is %s", r.Attachment.Network, r.Phase))
	}
	for _, d := range dels {
		add(d.Record, true, fmt.Sprintf("the DEL of network %s fails since %s: %s", d.Record.Attachment.Network, d.Since.Format("2006-01-02 15:04"), d.Cause))
	}
	cache := filepath.Join(state, "cni")
	if _, err := os.Stat(filepath.Join(cache, "results")); err != nil {
		return out, nil //nolint:nilerr // there is no cache
	}
	runner, err := cniexec.New(cniexec.Options{HostRoot: "/", CacheDir: cache})
	if err != nil {
		return nil, err
	}
	cached, err := runner.Cached()
	if err != nil {
		return nil, fmt.Errorf("reading nadra's CNI cache: %w: inspect the file, and remove it", err)
	}
	for _, c := range cached {
		if !held[c.ContainerID] {
			out = append(out, probe.Record{Pod: c.PodName(), What: fmt.Sprintf("interface %s of CNI network %s is in the CNI cache only", c.IfName, c.Network), Cleanup: true})
		}
	}
	return out, nil
}

// paths returns the paths of existing files as the process sees them, by their paths in
// the host.
func (o UninstallOptions) paths() (map[string]string, error) {
	out := map[string]string{}
	for _, pattern := range append([]string{o.StateDir}, o.Patterns...) {
		dir, err := securejoin.SecureJoin(o.Root, filepath.Dir(pattern))
		if err != nil {
			return nil, err
		}
		found, err := filepath.Glob(filepath.Join(dir, filepath.Base(pattern)))
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", pattern, err)
		}
		for _, inside := range found {
			out[filepath.Join(filepath.Dir(pattern), filepath.Base(inside))] = inside
		}
	}
	return out, nil
}
