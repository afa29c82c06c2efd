package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// refuseLaterVersions returns an error if a file of these directories has a later format version
// than this package reads. Such a file is whole, and a later driver wrote it: if it were put aside
// as damaged, its pods would lose their records.
func refuseLaterVersions(dirs ...string) error {
	var errs []error
	for _, dir := range dirs {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("reading the state directory: %w", err)
		}
		for _, e := range entries {
			path := filepath.Join(dir, e.Name())
			if atomicfile.IsTemporary(path) {
				continue
			}
			errs = append(errs, refuseLaterVersion(path))
		}
	}
	return errors.Join(errs...)
}

// refuseLaterVersion does so for one file. A file that cannot be read, or has no version, is
// damaged: that is decided when it is loaded.
func refuseLaterVersion(path string) error {
	var head struct {
		Version int `json:"version"`
	}
	if data, err := os.ReadFile(path); err == nil {
		_ = json.Unmarshal(data, &head)
	}
	if head.Version <= formatVersion {
		return nil
	}
	return reason.Errorf(reason.StateOfLaterVersion, "%s has format version %d, and this nadra-node reads versions up to %d: "+
		"run the version of nadra-node that wrote it, or a later one; no file was changed", path, head.Version, formatVersion)
}
