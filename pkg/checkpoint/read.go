package checkpoint

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/internal/atomicfile"
)

// Read reads all records and pending DELs below dir without changing anything, also
// while a driver runs. If a power cut may undo a claim's latest change, the records
// before the change are returned, too. A missing directory is empty. The error is about
// files that could not be read; the others are returned all the same.
func Read(dir string) ([]Record, []PendingDEL, error) {
	var records []Record
	err := readAll(claimsDir(dir), func(name string, data []byte) error {
		of, err := decodeClaimFile(data, strings.TrimPrefix(name, syncedPrefix))
		records = append(records, of...)
		return err
	})
	var dels []PendingDEL
	err2 := readAll(pendingDir(dir), func(_ string, data []byte) error {
		del, err := decodePendingDEL(data)
		if err == nil {
			dels = append(dels, del)
		}
		return err
	})
	return inAttachOrder(records), dels, errors.Join(err, err2)
}

// readAll passes every file of a directory to decode, with its name without ".json". It
// ignores files that are removed while it reads.
func readAll(dir string, decode func(name string, data []byte) error) error {
	entries, err := os.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("reading the state directory: %w", err)
	}
	var errs []error
	for _, e := range entries {
		if atomicfile.IsTemporary(e.Name()) {
			continue
		}
		data, err := os.ReadFile(filepath.Join(dir, e.Name()))
		if err == nil {
			err = decode(strings.TrimSuffix(e.Name(), ".json"), data)
		}
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("reading %s: %w", filepath.Join(dir, e.Name()), err))
		}
	}
	return errors.Join(errs...)
}
