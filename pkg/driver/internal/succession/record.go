package succession

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/nadra-dev/nadra/internal/atomicfile"
)

const (
	// recordFile is the record's name in the state directory.
	recordFile = "holder.json"
	// recordVersion is the version of the record's format.
	recordVersion = 1
	// supersededKept is how many drivers that have handed over are remembered. Their pods are
	// deleted within seconds.
	supersededKept = 16
)

// Driver names a driver's process.
type Driver struct {
	// PodUID is the UID of its pod; empty if the driver does not know it.
	PodUID string `json:"podUID,omitempty"`
	// Program is the version of nadra-node.
	Program string `json:"program,omitempty"`
}

// Record describes which driver has a state directory.
type Record struct {
	Version int       `json:"version"`
	Holder  Driver    `json:"holder"`
	Since   time.Time `json:"since"`
	// Superseded are drivers that have handed the directory over, the latest last.
	Superseded []Superseded `json:"superseded,omitempty"`
}

// Superseded is a driver that has handed the directory over to another.
type Superseded struct {
	Driver
	By Driver    `json:"by"`
	At time.Time `json:"at"`
	// Times is how often it has handed over to By.
	Times int `json:"times,omitempty"`
}

// LostBy returns how often a driver has taken the directory from the present holder, which has it again: the
// driver has ended each time.
func (r Record) LostBy(d Driver) int {
	for _, s := range r.Superseded {
		if d.PodUID != "" && s.PodUID == r.Holder.PodUID && s.By.PodUID == d.PodUID {
			return s.Times
		}
	}
	return 0
}

// IsSuperseded reports whether a driver has handed the directory over. It does not ask for it
// back, so that two drivers never take turns.
func (r Record) IsSuperseded(d Driver) bool {
	return d.PodUID != "" && slices.ContainsFunc(r.Superseded, func(s Superseded) bool { return s.PodUID == d.PodUID })
}

// TakenBy returns the record after a driver has taken the directory. asked is true if the holder
// has handed it over because the driver had asked.
func (r Record) TakenBy(d Driver, asked bool, now time.Time) Record {
	out := Record{Version: recordVersion, Holder: d, Since: now, Superseded: slices.Clone(r.Superseded)}
	if before := r.Holder; asked && before.PodUID != "" && before.PodUID != d.PodUID {
		out.Superseded = slices.DeleteFunc(out.Superseded, func(s Superseded) bool { return s.PodUID == before.PodUID })
		out.Superseded = append(out.Superseded, Superseded{Driver: before, By: d, At: now, Times: r.LostBy(d) + 1})
	}
	if over := len(out.Superseded) - supersededKept; over > 0 {
		out.Superseded = out.Superseded[over:]
	}
	return out
}

// ReadRecord reads the record of a state directory. It returns an empty one if there is none. It
// refuses one of a later format, and leaves it as it is.
func ReadRecord(dir string) (Record, error) {
	path := filepath.Join(dir, recordFile)
	data, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return Record{}, nil
	}
	if err != nil {
		return Record{}, fmt.Errorf("reading which driver has the state directory: %w", err)
	}
	var r Record
	if json.Unmarshal(data, &r) != nil {
		r = Record{} // The disk is damaged. The lock decides who has the directory, not this file.
	}
	if r.Version > recordVersion {
		return Record{}, fmt.Errorf("%s has format version %d and this nadra-node reads version %d: run the version of nadra-node that wrote it, or a later one", path, r.Version, recordVersion)
	}
	return r, nil
}

// Write writes the record into a state directory, which the caller has locked.
func (r Record) Write(dir string) error { return r.write(dir, atomicfile.Write) }

// Try returns the error with which Write would fail. It writes nothing, and needs no lock.
func (r Record) Try(dir string) error { return r.write(dir, atomicfile.Try) }

func (r Record) write(dir string, write func(string, []byte, fs.FileMode) error) error {
	data, err := json.Marshal(r)
	if err != nil {
		return fmt.Errorf("encoding which driver has the state directory: %w", err)
	}
	if err := write(filepath.Join(dir, recordFile), data, 0o600); err != nil {
		return fmt.Errorf("writing which driver has the state directory: %w", err)
	}
	return nil
}
