package cluster

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// The subfolders of the cache that hold no builds.
const (
	logsFolder = "logs"
	runFolder  = "run"
)

// cached is a folder in a subfolder of the cache.
type cached struct {
	path string    // below the cache, such as components/runc-0123456789abcdef
	used time.Time // the modification time, which use sets
	busy bool      // a process has the path in its arguments or environment
}

var (
	builtName   = regexp.MustCompile(`-[0-9a-f]{16}$`) // what a recipe's folder has after the recipe's name
	partialName = regexp.MustCompile(`-\.partial-[^/]*$`)
)

// retention returns the group that the folder belongs to, how many folders of
// that group are always kept, and for how long the others are kept after their
// last use. ok is false if prune must not touch the folder.
func (c cached) retention() (group string, always int, unused time.Duration, ok bool) {
	const day = 24 * time.Hour
	parent := filepath.Dir(c.path)
	switch {
	case parent == runFolder:
		return "", 0, 0, false
	case partialName.MatchString(c.path):
		return c.path, 0, day, true
	case parent == logsFolder:
		return parent, 10, 0, true
	case builtName.MatchString(c.path):
		return builtName.ReplaceAllString(c.path, ""), 1, 7 * day, true
	}
	return "", 0, 0, false
}

// outdated returns the folders of the cache to remove: partial folders after a
// day, all but the ten newest saved logs, and builds that nobody has used for a
// week, except the last used build of each name. It never returns a folder
// that is busy.
func outdated(all []cached, now time.Time) []cached {
	newestFirst := slices.SortedStableFunc(slices.Values(all), func(a, b cached) int { return b.used.Compare(a.used) })
	members := map[string]int{}
	var out []cached
	for _, c := range newestFirst {
		group, always, unused, ok := c.retention()
		members[group]++
		if ok && !c.busy && members[group] > always && now.Sub(c.used) > unused {
			out = append(out, c)
		}
	}
	return out
}

// Prune removes the outdated folders of the cache and writes to out what it
// removed and how much space the cache and Go's caches take. It is safe while
// other processes build components and start or use clusters.
func Prune(ctx context.Context, out io.Writer) error {
	cache, err := cacheFolder()
	if err != nil {
		return err
	}
	if err := prune(cache, out); err != nil {
		return err
	}
	return writeDiskUse(ctx, cache, out)
}

// tidy prunes the cache after something was added to it. It writes an error to
// out and does not return it, because the addition itself has succeeded.
func tidy(cache string, out io.Writer) {
	if err := prune(cache, out); err != nil {
		fmt.Fprintln(out, err)
	}
}

// prune removes the outdated folders of the cache and writes one line about
// each of them, and the sum, to out.
func prune(cache string, out io.Writer) error {
	all, problems := folders(cache)
	var removed int
	var freed int64
	for _, c := range outdated(all, time.Now()) {
		size := diskUse(filepath.Join(cache, c.path))
		done, err := c.remove(cache)
		problems = errors.Join(problems, err)
		if done {
			removed, freed = removed+1, freed+size
			fmt.Fprintf(out, "removed %s, last used on %s: %s\n", c.path, c.used.Format(time.DateOnly), mebibytes(size))
		}
	}
	if removed > 0 {
		fmt.Fprintf(out, "removed %d folder(s) from %s: %s\n", removed, cache, mebibytes(freed))
	}
	if problems != nil {
		return fmt.Errorf("pruning the cache: %w", problems)
	}
	return nil
}

// folders lists the folders in all subfolders of the cache.
func folders(cache string) ([]cached, error) {
	paths, err := fs.Glob(os.DirFS(cache), "*/*")
	if err != nil {
		return nil, err
	}
	processes := processTexts()
	var all []cached
	for _, path := range paths {
		// Another process may have removed the folder since.
		if info, err := os.Lstat(filepath.Join(cache, path)); err == nil && info.IsDir() {
			all = append(all, cached{path: path, used: info.ModTime(), busy: strings.Contains(processes, "/"+path)})
		}
	}
	return all, nil
}

// processTexts returns the arguments and environments of all processes. The
// processes of a cluster have the folders of its programs in their PATH.
func processTexts() string {
	var all strings.Builder
	for _, name := range []string{"cmdline", "environ"} {
		files, _ := filepath.Glob("/proc/[0-9]*/" + name) // the pattern is valid
		for _, file := range files {
			content, _ := os.ReadFile(file) // fails if the process has ended
			all.Write(content)
			all.WriteByte(0)
		}
	}
	return all.String()
}

// remove removes the folder. It returns false if another process uses the
// folder, or has used it since it was listed.
func (c cached) remove(cache string) (bool, error) {
	path := filepath.Join(cache, c.path)
	file, err := lockExisting(path, unix.LOCK_EX|unix.LOCK_NB)
	if err != nil {
		return false, nil //nolint:nilerr // another process uses or removes it
	}
	defer file.Close()
	if info, err := file.Stat(); err != nil || !info.ModTime().Equal(c.used) {
		return false, err
	}
	// A folder that has its own name is complete, also if this is interrupted.
	aside := path + "-.partial-removed"
	if err := os.Rename(path, aside); err != nil {
		return false, err
	}
	return true, os.RemoveAll(aside)
}

// use notes that the caller uses a folder of the cache, so that prune keeps the
// folder. It returns false if the folder does not exist.
func use(folder string) bool {
	file, err := lockExisting(folder, unix.LOCK_SH)
	if err != nil {
		return false
	}
	defer file.Close()
	now := time.Now()
	_ = os.Chtimes(folder, now, now) // fails for users who cannot prune this cache, either
	return true
}
