package multusstate

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

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/probe"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// confInterval is the time between two checks for Multus' configuration.
const confInterval = 100 * time.Millisecond

// maxConf limits the bytes of a configuration. Real ones have some KB.
const maxConf = 1 << 20

// ConfDirs are the directories of configurations. The caller ensures that Multus has no attachment on
// the node, and that its daemon is gone.
type ConfDirs struct {
	// Conf is the directory that the container runtime reads.
	Conf string
	// Kept keeps Multus' configurations for a rollback; it need not exist.
	Kept string
}

// Take moves Multus' configurations, if any, from Conf to Kept. It refuses if the runtime
// would have no other configuration, and if the directory has none at all: the runtime reads
// another one then.
func (d ConfDirs) Take() (report probe.MultusConfReport, err error) {
	multus, others, err := d.list()
	if err != nil {
		return report, fmt.Errorf("taking Multus' configuration away: %w", err)
	}
	if len(others) == 0 {
		return report, fmt.Errorf("taking Multus' configuration away: %w", reason.Errorf(reason.LastConfiguration,
			"%s has no other configuration, and the runtime would have no network: put the default network's own configuration there, "+
				"or set --cni-conf-dir to the directory that the runtime reads", d.Conf))
	}
	for _, name := range multus {
		if err := moveConf(filepath.Join(d.Conf, name), filepath.Join(d.Kept, name)); err != nil {
			return report, fmt.Errorf("taking Multus' configuration away: %w", err)
		}
	}
	return probe.MultusConfReport{Moved: multus, Left: others}, nil
}

// WithoutMultus reports whether the container runtime has a configuration, and none of Multus. A
// directory without any is not the one that the runtime reads.
func (d ConfDirs) WithoutMultus() (bool, error) {
	multus, others, err := d.list()
	if errors.Is(err, fs.ErrNotExist) { // the directory, or a file that was removed just now
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("looking for Multus' configuration: %w", err)
	}
	return len(multus) == 0 && len(others) > 0, nil
}

// Give moves configurations from Kept to Conf. It keeps a file that was written to Conf
// under the same name meanwhile, because it is newer.
func (d ConfDirs) Give() (probe.MultusConfReport, error) {
	report, err := d.give()
	if err != nil {
		return report, fmt.Errorf("giving Multus' configuration back: %w", err)
	}
	return report, nil
}

// give moves the configurations, and leaves it to Give to say so in its errors.
func (d ConfDirs) give() (probe.MultusConfReport, error) {
	kept, err := names(d.Kept)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return probe.MultusConfReport{}, err
	}
	report := probe.MultusConfReport{Moved: []string{}}
	for _, name := range kept {
		from, to := filepath.Join(d.Kept, name), filepath.Join(d.Conf, name)
		if _, err := os.Lstat(to); err == nil {
			if err := os.Remove(from); err != nil {
				return report, err
			}
			continue
		}
		if err := moveConf(from, to); err != nil {
			return report, err
		}
		report.Moved = append(report.Moved, name)
	}
	report.Left, err = names(d.Conf)
	return report, err
}

// Await waits until the runtime has a configuration of Multus, which Multus' daemon
// writes a moment after its pod is ready. Until then the runtime starts pods with the
// default network alone. It returns an error when ctx ends before.
func (d ConfDirs) Await(ctx context.Context) (probe.MultusConfReport, error) {
	var multus, others []string
	err := wait.PollUntilContextCancel(ctx, confInterval, true, func(context.Context) (found bool, err error) {
		multus, others, err = d.list()
		return len(multus) > 0, err
	})
	if err != nil && errors.Is(err, ctx.Err()) {
		err = reason.Errorf(reason.MultusConfigurationMissing, "%s has none, only %s: read the log of Multus' pod on this node",
			d.Conf, strings.Join(others, ", "))
	}
	if err != nil {
		return probe.MultusConfReport{}, fmt.Errorf("waiting for Multus' configuration: %w", err)
	}
	return probe.MultusConfReport{Moved: []string{}, Left: slices.Sorted(slices.Values(slices.Concat(multus, others)))}, nil
}

// list lists Multus' configurations and others. It ignores invalid configurations, as the
// runtime does.
func (d ConfDirs) list() (multus, others []string, err error) {
	all, err := names(d.Conf)
	if err != nil {
		return nil, nil, err
	}
	multus, others = []string{}, []string{}
	for _, name := range all {
		content, err := atomicfile.Read(filepath.Join(d.Conf, name), maxConf)
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

// names returns the names of a directory's configuration files, as container runtimes
// select them, sorted.
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

// moveConf moves a file, also to another file system. The new file is complete before the old
// one is removed; a power cut in between leaves both.
func moveConf(from, to string) error {
	content, err := atomicfile.Read(from, maxConf)
	if err != nil {
		return err
	}
	info, err := os.Stat(from)
	if err != nil {
		return err
	}
	if err := atomicfile.MkdirAll(filepath.Dir(to), 0o700); err != nil {
		return err
	}
	if old, err := atomicfile.Read(to, maxConf); err != nil || !bytes.Equal(old, content) {
		if err := atomicfile.Write(to, content, info.Mode().Perm()); err != nil { // runtimes do not read its temporary name
			return err
		}
	}
	return atomicfile.RemoveForGood(from)
}
