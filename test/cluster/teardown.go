package cluster

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// tearDown ends all machines that have a folder in a run folder, and empties it. It needs
// only the folder, because nothing else may be left.
func tearDown(ctx context.Context, dir string) error {
	pidFiles, err := filepath.Glob(filepath.Join(dir, "*", initName+".pid"))
	if err != nil {
		return err
	}
	var steps []func(context.Context) error
	for _, path := range pidFiles {
		folder := filepath.Dir(path)
		name := filepath.Base(folder)
		m := &Machine{namespaces: namespaces{name: name, folder: folder}, group: groupOf(dir) + cgroup("/"+name)}
		steps = append(steps, m.powerOff)
	}
	if err := together(ctx, steps...); err != nil {
		return err
	}
	if err := endMarked(ctx, dir); err != nil {
		return err
	}
	if err := groupOf(dir).remove(ctx); err != nil {
		return err
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return err
		}
	}
	return nil
}

// endMarked kills processes that have the mark of the cluster, but no PID file: its first
// process just after its start, or all of them if the run folder was removed.
func endMarked(ctx context.Context, dir string) error {
	files, err := filepath.Glob("/proc/[0-9]*/environ")
	if err != nil {
		return err
	}
	for _, path := range files {
		environment, err := os.ReadFile(path)
		if err != nil || !strings.Contains("\x00"+string(environment), "\x00"+marker+"="+dir+"\x00") {
			continue // also when it has ended meanwhile
		}
		p, err := identify(filepath.Base(filepath.Dir(path)))
		if err != nil {
			continue
		}
		if err := p.end(ctx, unix.SIGKILL, stopLimit); err != nil {
			return fmt.Errorf("killing process %d, which belongs to the cluster: %w", p.pid, err)
		}
	}
	return nil
}
