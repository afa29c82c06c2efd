package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// writeDiskUse writes a table of the space that each subfolder of the cache,
// the whole cache, and Go's build and module caches take. A new machine has no
// cache yet.
func writeDiskUse(ctx context.Context, cache string, out io.Writer) error {
	goEnv, err := exec.CommandContext(ctx, "go", "env", "GOCACHE", "GOMODCACHE").Output()
	if err != nil {
		return fmt.Errorf("finding Go's caches: %w", err)
	}
	entries, err := os.ReadDir(cache)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	row := func(size int64, folder string) { fmt.Fprintf(out, "%12s  %s\n", mebibytes(size), folder) }
	fmt.Fprintf(out, "%12s  folder\n", "size")
	var total int64
	for _, entry := range entries {
		size := diskUse(filepath.Join(cache, entry.Name()))
		total += size
		row(size, entry.Name())
	}
	row(total, cache+" (sum of the above)")
	for folder := range strings.Lines(string(goEnv)) {
		folder = strings.TrimSpace(folder)
		row(diskUse(folder), folder)
	}
	return nil
}

// diskUse returns how many bytes of the disk the files below a folder take. It
// leaves out files that are removed while it counts.
func diskUse(folder string) (bytes int64) {
	_ = filepath.WalkDir(folder, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil {
			return nil //nolint:nilerr // the file was removed
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return nil
	})
	return bytes
}

func mebibytes(bytes int64) string { return fmt.Sprintf("%.1f MiB", float64(bytes)/(1<<20)) }
