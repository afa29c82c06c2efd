// Package uninstallhost takes away what nadra has on the node that it runs on.
package uninstallhost

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"

	"github.com/nadra-dev/nadra/internal/cleanup"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/cniexec"
)

// Options say where to look. All paths are the host's.
type Options struct {
	// Root is the host's root directory as the process sees it.
	Root string
	// StateDir is nadra's state.
	StateDir string
	// Patterns are of files and directories that are nadra's beside that.
	Patterns []string
	// Remove has them removed, if nothing is left to be done.
	Remove bool
}

// Run looks, and removes if it is to. Where the checkpoint still has records
// nothing is removed: they are all that is known of what must be given back.
func Run(o Options) cleanup.Remains {
	out := cleanup.Remains{Records: []cleanup.Record{}, Paths: []string{}}
	if err := o.run(&out); err != nil {
		out.Error = err.Error()
	}
	return out
}

func (o Options) run(out *cleanup.Remains) error {
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
	release, err := lock(state)
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

// remove removes a file or directory. One that is mounted stays, and is empty.
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

// records are what a claim was prepared for, DELs that are owed, and attachments
// of which only the CNI cache knows.
func records(state string) ([]cleanup.Record, error) {
	all, dels, err := checkpoint.Read(state)
	if err != nil {
		return nil, fmt.Errorf("reading nadra's checkpoint: %w: nadra's driver puts such files aside when it starts", err)
	}
	out := []cleanup.Record{}
	held := map[string]bool{}
	add := func(r checkpoint.Record, what string) {
		if r.Sandbox != nil {
			held[r.Sandbox.ID] = true
		}
		out = append(out, cleanup.Record{Pod: r.Pod.Namespace + "/" + r.Pod.Name, Claim: r.Claim.Namespace + "/" + r.Claim.Name, What: what})
	}
	for _, r := range all {
		add(r, fmt.Sprintf("network %s is %s", r.Attachment.Network, r.Phase))
	}
	for _, d := range dels {
		add(d.Record, fmt.Sprintf("the DEL of network %s fails since %s: %s", d.Record.Attachment.Network, d.Since.Format("2006-01-02 15:04"), d.Cause))
	}
	cache := filepath.Join(state, "cni")
	if _, err := os.Stat(filepath.Join(cache, "results")); err != nil {
		return out, nil //nolint:nilerr // there is none
	}
	runner, err := cniexec.New(cniexec.Options{HostRoot: "/", CacheDir: cache})
	if err != nil {
		return nil, err
	}
	cached, err := runner.Cached()
	if err != nil {
		return nil, fmt.Errorf("reading nadra's CNI cache: %w: look at the file, and remove it", err)
	}
	for _, c := range cached {
		if !held[c.ContainerID] {
			out = append(out, cleanup.Record{Pod: c.Pod, What: fmt.Sprintf("interface %s of CNI network %s is in the CNI cache only", c.Interface, c.Network), Cleanup: true})
		}
	}
	return out, nil
}

// paths are those that are there, by their places in the host.
func (o Options) paths() (map[string]string, error) {
	out := map[string]string{}
	for _, pattern := range append([]string{o.StateDir}, o.Patterns...) {
		dir, err := securejoin.SecureJoin(o.Root, filepath.Dir(pattern))
		if err != nil {
			return nil, err
		}
		found, err := filepath.Glob(filepath.Join(dir, filepath.Base(pattern)))
		if err != nil {
			return nil, fmt.Errorf("looking for %s: %w", pattern, err)
		}
		for _, inside := range found {
			out[filepath.Join(filepath.Dir(pattern), filepath.Base(inside))] = inside
		}
	}
	return out, nil
}

// lock refuses while a driver runs.
func lock(dir string) (release func(), err error) {
	f, err := os.Open(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return func() {}, nil
	}
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if errors.Is(err, unix.EWOULDBLOCK) {
		err = errors.New("nadra's driver still runs here: delete its DaemonSet")
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}
