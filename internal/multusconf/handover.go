// Package multusconf takes Multus' configuration away from a node's container
// runtime, and gives it back. It is the part of an upgrade that happens on the
// node; whoever calls it has seen to it that Multus has nothing attached there,
// and that its daemon is gone.
package multusconf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/probe"
)

// awaitInterval is the time between two looks for Multus' configuration.
const awaitInterval = 100 * time.Millisecond

// Dirs are where configurations are.
type Dirs struct {
	// Conf is where the runtime looks for them.
	Conf string
	// Kept is where Multus' own are kept for the way back; it need not exist.
	Kept string
}

// Report is what was done.
type Report struct {
	// Moved are the files that were taken away or given back, sorted.
	Moved []string `json:"moved"`
	// Left are the configurations that the runtime now has, sorted: it takes the
	// first.
	Left []string `json:"left"`
}

// Take takes Multus' configurations away. It refuses when the runtime would be
// left with none. Where there are none of Multus it does nothing.
func (d Dirs) Take() (Report, error) {
	multus, others, err := d.sort()
	if err != nil {
		return Report{}, fmt.Errorf("taking Multus' configuration away: %w", err)
	}
	if len(multus) > 0 && len(others) == 0 {
		return Report{}, fmt.Errorf("taking Multus' configuration away: %s has no other configuration, and the runtime would have no network: "+
			"put the default network's own there", d.Conf)
	}
	for _, name := range multus {
		if err := move(filepath.Join(d.Conf, name), filepath.Join(d.Kept, name)); err != nil {
			return Report{}, fmt.Errorf("taking Multus' configuration away: %w", err)
		}
	}
	return Report{Moved: multus, Left: others}, nil
}

// Give gives back what was taken. What has been written under the same name
// since is newer, and stays.
func (d Dirs) Give() (Report, error) {
	kept, err := names(d.Kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return Report{}, fmt.Errorf("giving Multus' configuration back: %w", err)
	}
	report := Report{Moved: []string{}}
	for _, name := range kept {
		from, to := filepath.Join(d.Kept, name), filepath.Join(d.Conf, name)
		if _, err := os.Lstat(to); err == nil {
			err = os.Remove(from)
			if err != nil {
				return Report{}, fmt.Errorf("giving Multus' configuration back: %w", err)
			}
			continue
		}
		if err := move(from, to); err != nil {
			return Report{}, fmt.Errorf("giving Multus' configuration back: %w", err)
		}
		report.Moved = append(report.Moved, name)
	}
	if report.Left, err = names(d.Conf); err != nil {
		return Report{}, fmt.Errorf("giving Multus' configuration back: %w", err)
	}
	return report, nil
}

// Await waits until the runtime has a configuration of Multus, which Multus' daemon
// writes a moment after its pod is ready. Until then the runtime starts pods with the
// default network alone. It returns an error when ctx ends before.
func (d Dirs) Await(ctx context.Context) (Report, error) {
	for {
		multus, others, err := d.sort()
		if err != nil {
			return Report{}, fmt.Errorf("waiting for Multus' configuration: %w", err)
		}
		if len(multus) > 0 {
			return Report{Moved: []string{}, Left: slices.Sorted(slices.Values(slices.Concat(multus, others)))}, nil
		}
		select {
		case <-ctx.Done():
			return Report{}, fmt.Errorf("waiting for Multus' configuration: %s has none, only %s: read the log of Multus' pod on this node",
				d.Conf, strings.Join(others, ", "))
		case <-time.After(awaitInterval):
		}
	}
}

// sort tells Multus' configurations from others. What cannot be read as one is
// neither: the runtime passes it over, too.
func (d Dirs) sort() (multus, others []string, err error) {
	all, err := names(d.Conf)
	if err != nil {
		return nil, nil, err
	}
	multus, others = []string{}, []string{}
	for _, name := range all {
		content, err := os.ReadFile(filepath.Join(d.Conf, name))
		if err != nil {
			return nil, nil, err
		}
		switch conf := probe.ParseConf(name, content); {
		case slices.ContainsFunc(conf.Plugins, probe.IsMultus):
			multus = append(multus, name)
		case conf.Error == "" && len(conf.Plugins) > 0:
			others = append(others, name)
		}
	}
	return multus, others, nil
}

// names are those of a directory's configurations, as runtimes look for them,
// sorted.
func names(dir string) ([]string, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	out := []string{}
	for _, e := range entries {
		if !e.IsDir() && slices.Contains([]string{".conf", ".conflist", ".json"}, filepath.Ext(e.Name())) && !strings.HasPrefix(e.Name(), ".") {
			out = append(out, e.Name())
		}
	}
	return out, nil
}

// move moves a file to what may be another file system: it is in its new place
// whole before it leaves the old one, and a power cut in between leaves both.
func move(from, to string) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if old, err := os.ReadFile(to); err != nil || !bytes.Equal(old, content) {
		if err := write(to, content, info.Mode().Perm()); err != nil {
			return err
		}
	}
	if err := os.Remove(from); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(from))
}

// write makes a file appear with its content, also after a power cut. Runtimes do not read
// its temporary name.
func write(path string, content []byte, mode fs.FileMode) error {
	if err := atomicfile.Write(path, content, mode); err != nil {
		return err
	}
	return atomicfile.SyncDir(filepath.Dir(path))
}
