package cluster

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// LogDir returns the folder of the logs: one folder for each machine, with one
// file for each component, and for nodes a folder with those of the pods.
func (c *Cluster) LogDir() string { return logDir(c.options.Dir) }

func logDir(dir string) string { return filepath.Join(dir, "log") }

// SaveLogs copies the logs to a folder of the cache, which Stop does not remove,
// and returns the folder. It replaces the logs that were saved earlier under the
// same name from the same run folder; of all others prune keeps the newest.
func (c *Cluster) SaveLogs(name string) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	target := filepath.Join(cache, logsFolder, name+strings.TrimPrefix(string(c.group), "/nadra"))
	if err := os.RemoveAll(target); err != nil {
		return "", err
	}
	if err := copyTree(target, c.LogDir()); err != nil {
		return "", fmt.Errorf("saving the logs: %w", err)
	}
	tidy(cache, io.Discard)
	return target, nil
}

// copyTree copies the regular files of a folder that may be in use.
func copyTree(target, source string) error {
	return filepath.WalkDir(source, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		relative, err := filepath.Rel(source, path)
		if err != nil {
			return err
		}
		return writeFile(filepath.Join(target, relative), content)
	})
}
