package checkpoint

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/nadra-dev/nadra/internal/atomicfile"
)

// Damaged describes a file that was moved away because it could not be read.
type Damaged struct {
	// Path is the file's new path.
	Path string
	// Name is the file's former name without extension: the UID of a claim.
	Name string
	// Err is why the file could not be read.
	Err error
}

// damagedFiles is the directory of files that could not be read.
type damagedFiles struct{ dir string }

// load passes every file of another directory to decode, with its name without
// ".json". It moves away the files that cannot be decoded, and returns an error if one cannot be read.
func (f damagedFiles) load(dir string, decode func(name string, data []byte) error) ([]Damaged, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the state directory: %w", err)
	}
	var damaged []Damaged
	for _, e := range entries {
		path, name := filepath.Join(dir, e.Name()), strings.TrimSuffix(e.Name(), ".json")
		if atomicfile.IsTemporary(path) {
			_ = os.Remove(path) // left by a crash; harmless if it stays on a read-only disk
			continue
		}
		if strings.HasPrefix(name, syncedPrefix) {
			continue
		}
		var data []byte
		if e.Type().IsRegular() {
			if data, err = os.ReadFile(path); err != nil { // it may be whole
				return nil, fmt.Errorf("reading the state directory: %w", err)
			}
		}
		if err := decode(name, data); err != nil {
			damaged = append(damaged, f.moveAway(path, name, err))
		}
	}
	return damaged, nil
}

// moveAway moves a damaged file away. If a power cut undoes that, the next start does it again.
func (f damagedFiles) moveAway(path, name string, why error) Damaged {
	target := filepath.Join(f.dir, fmt.Sprintf("%s.%d", filepath.Base(path), time.Now().UnixNano()))
	if err := os.Rename(path, target); err != nil {
		return Damaged{Path: path, Name: name, Err: errors.Join(why, fmt.Errorf("moving it away: %w", err))}
	}
	return Damaged{Path: target, Name: name, Err: why}
}

// count returns the number of files that have not been removed yet.
func (f damagedFiles) count() int {
	entries, err := os.ReadDir(f.dir)
	if err != nil {
		return 0
	}
	return len(entries)
}
