package publish

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// ConfDir is a directory of CNI configurations in the host.
type ConfDir struct{ hostRoot, path string }

// NewConfDir returns the directory at a path in the host, whose root directory is hostRoot.
func NewConfDir(hostRoot, path string) ConfDir { return ConfDir{hostRoot, path} }

// Find returns the configuration with this name, and its path in the host. It prefers a
// list to a single plugin, and then the first file by name (NPWG standard § 3.4.1,
// behaviour A1-7). Files that cannot be read are ignored unless nothing is found; then
// the error lists them.
func (d ConfDir) Find(name string) (path string, config []byte, err error) {
	files, err := d.files()
	if err != nil {
		return "", nil, err
	}
	var broken []string
	for _, file := range files {
		conf, err := read(file)
		inHost := filepath.Join(d.path, filepath.Base(file))
		switch {
		case err != nil:
			broken = append(broken, fmt.Sprintf("%s: %v", filepath.Base(file), err))
		case conf.Name != name:
		case conf.Plugins != nil:
			return inHost, conf.content, nil
		case config == nil:
			path, config = inHost, conf.content
		}
	}
	if config != nil {
		return path, config, nil
	}
	err = reason.Errorf(reason.ConfigMissing, "no file in %s has the name %q: write the configuration there, or into the NAD's spec.config", d.path, name)
	if len(broken) > 0 {
		err = fmt.Errorf("%w (not readable: %s)", err, strings.Join(broken, "; "))
	}
	return "", nil, err
}

// DefaultName returns the name in the first file that has one, as container runtimes
// choose the default network. It returns an empty name if the directory cannot be read:
// network-status then lacks the name.
func (d ConfDir) DefaultName() string {
	files, err := d.files()
	if err != nil {
		return ""
	}
	for _, file := range files {
		if conf, err := read(file); err == nil && conf.Name != "" {
			return conf.Name
		}
	}
	return ""
}

// files returns the configuration files by name, as paths in this process. A directory
// that does not exist has none.
func (d ConfDir) files() ([]string, error) {
	dir, err := securejoin.SecureJoin(d.hostRoot, d.path)
	if err != nil {
		return nil, reason.Errorf(reason.ConfigMissing, "resolving %s: %w", d.path, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, reason.Errorf(reason.ConfigMissing, "reading the directory of CNI configurations: %w", err)
	}
	var files []string
	for _, e := range entries {
		if slices.Contains([]string{".conf", ".json", ".conflist"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// maxFile limits the bytes of a file in the directory, which may have other programs' files.
const maxFile = 1 << 20

// conf is a configuration file. Plugins is nil for a single plugin.
type conf struct {
	Name    string            `json:"name"`
	Plugins []json.RawMessage `json:"plugins"`
	content []byte
}

func read(path string) (conf, error) {
	content, err := atomicfile.Read(path, maxFile)
	if err != nil {
		return conf{}, err
	}
	out := conf{content: content}
	return out, json.Unmarshal(content, &out)
}
