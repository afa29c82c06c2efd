package driver

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
)

// confDir is the directory of CNI configurations for NADs that have none of
// their own. The path is one in the host.
type confDir struct{ hostRoot, path string }

// find returns the configuration whose "name" is the NAD's: a list before a
// single plugin, then in the order of the file names (NPWG standard § 3.4.1,
// behaviour A1-7). A file that cannot be read is no reason not to find
// another; it is named when none is found.
func (c confDir) find(name string) (path string, config []byte, err error) {
	files, err := c.files()
	if err != nil {
		return "", nil, err
	}
	var broken []string
	for _, file := range files {
		content, is, err := readConf(file, name)
		inHost := filepath.Join(c.path, filepath.Base(file))
		switch {
		case err != nil:
			broken = append(broken, fmt.Sprintf("%s: %v", filepath.Base(file), err))
		case is == aList:
			return inHost, content, nil
		case is == aPlugin && config == nil:
			path, config = inHost, content
		}
	}
	if config != nil {
		return path, config, nil
	}
	err = fmt.Errorf("no file in %s has the name %q: write the configuration there, or into the NAD's spec.config", c.path, name)
	if len(broken) > 0 {
		err = fmt.Errorf("%w (not readable: %s)", err, strings.Join(broken, "; "))
	}
	return "", nil, err
}

// files are the configurations in the directory, sorted by name, as paths in
// the driver's view. A directory that is not there has none.
func (c confDir) files() ([]string, error) {
	dir, err := securejoin.SecureJoin(c.hostRoot, c.path)
	if err != nil {
		return nil, fmt.Errorf("resolving %s: %w", c.path, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("reading the directory of CNI configurations: %w", err)
	}
	var files []string
	for _, e := range entries {
		if slices.Contains([]string{".conf", ".json", ".conflist"}, filepath.Ext(e.Name())) {
			files = append(files, filepath.Join(dir, e.Name()))
		}
	}
	return files, nil
}

// What a file is to a NAD.
type fileKind int

const (
	another fileKind = iota // of another network
	aPlugin
	aList
)

// readConf reads one file and says what it is to the NAD of that name.
func readConf(path, name string) ([]byte, fileKind, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return nil, another, err
	}
	var conf struct {
		Name    string            `json:"name"`
		Plugins []json.RawMessage `json:"plugins"`
	}
	if err := json.Unmarshal(content, &conf); err != nil {
		return nil, another, err
	}
	switch {
	case conf.Name != name:
		return nil, another, nil
	case conf.Plugins != nil:
		return content, aList, nil
	}
	return content, aPlugin, nil
}
