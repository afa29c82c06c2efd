package multusstate

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

func (d Dir) results() string { return filepath.Join(d.Multus, "results") }
func (d Dir) taken() string   { return filepath.Join(d.Multus, "nadra") }

// Take makes nadra the one that deletes a sandbox's attachments: it takes Multus' file. It reports
// false if Multus has no file of the sandbox, because nadra has taken it or because Multus has
// deleted the attachments.
func (d Dir) Take(id string) (bool, error) {
	if err := atomicfile.MkdirAll(d.taken(), 0o700); err != nil {
		return false, reason.Errorf(reason.StateNotWritten, "taking sandbox %s from Multus: %w", id, err)
	}
	return move(filepath.Join(d.Multus, id), filepath.Join(d.taken(), id))
}

// GiveEth0 gives the sandbox's entry of eth0, if there is one, to the container runtime, which
// needs it for CHECK and DEL when it does not call Multus. It keeps an entry that the runtime has.
func (d Dir) GiveEth0(s Sandbox) error {
	if s.eth0 == nil {
		return nil
	}
	err := os.MkdirAll(d.Runtime, 0o700)
	if err == nil {
		// A link appears complete; for the runtime, a temporary file would be another attachment.
		err = os.Link(s.eth0.File, filepath.Join(d.Runtime, filepath.Base(s.eth0.File)))
	}
	if err == nil || errors.Is(err, fs.ErrExist) || errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return reason.Errorf(reason.StateNotWritten, "giving the entry of eth0 of sandbox %s to the container runtime: %w", s.ID, err)
}

// Return gives a sandbox back to Multus. It reports false if nadra has not taken it.
func (d Dir) Return(id string) (bool, error) {
	moved, err := move(filepath.Join(d.taken(), id), filepath.Join(d.Multus, id))
	if err != nil || !moved {
		return moved, err
	}
	// The runtime's entry of eth0 becomes that of its call of Multus again.
	links, err := filepath.Glob(filepath.Join(d.results(), "*-"+id+"-*"))
	if err != nil {
		return true, err
	}
	for _, link := range links {
		if err := removeSame(filepath.Join(d.Runtime, filepath.Base(link)), link); err != nil {
			return true, reason.Errorf(reason.StateNotWritten, "taking the entry of eth0 of sandbox %s back from the container runtime: %w", id, err)
		}
	}
	return true, nil
}

// removeSame removes a file if it is the same one as another.
func removeSame(path, other string) error {
	a, err := os.Stat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	b, err := os.Stat(other)
	if err != nil || !os.SameFile(a, b) {
		return nil //nolint:nilerr // the runtime wrote an entry of its own
	}
	return os.Remove(path)
}

// Holder is who has to delete the attachments of a sandbox.
type Holder int

// The holders.
const (
	// Nobody means that there is no file of the sandbox any more.
	Nobody Holder = iota
	Multus
	Nadra
)

// Holder returns who has to delete the attachments of a sandbox.
func (d Dir) Holder(id string) Holder {
	if _, err := os.Lstat(filepath.Join(d.taken(), id)); err == nil {
		return Nadra
	}
	if _, err := os.Lstat(filepath.Join(d.Multus, id)); err == nil {
		return Multus
	}
	return Nobody
}

// Forget removes what is left of a sandbox that nadra has taken, when its attachments are
// deleted and its namespace is gone: Multus' file and cache, and the runtime's entries of the
// calls of Multus, which nobody else removes.
func (d Dir) Forget(id string) error {
	for _, dir := range []string{d.results(), d.Runtime} {
		files, err := filepath.Glob(filepath.Join(dir, "*-"+id+"-*"))
		if err != nil {
			return fmt.Errorf("forgetting sandbox %s of Multus: %w", id, err)
		}
		for _, file := range files {
			if err := atomicfile.Remove(file); err != nil {
				return reason.Errorf(reason.StateNotWritten, "forgetting sandbox %s of Multus: %w", id, err)
			}
		}
	}
	// Last, so that an interruption leaves what leads here again.
	if err := atomicfile.Remove(filepath.Join(d.taken(), id)); err != nil {
		return reason.Errorf(reason.StateNotWritten, "forgetting sandbox %s of Multus: %w", id, err)
	}
	return nil
}

// move renames a file, and reports false if it does not exist. The rename is on disk when it
// returns.
func move(from, to string) (bool, error) {
	err := os.Rename(from, to)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err == nil {
		err = errors.Join(atomicfile.SyncDir(filepath.Dir(to)), atomicfile.SyncDir(filepath.Dir(from)))
	}
	if err != nil {
		return false, reason.Errorf(reason.StateNotWritten, "moving Multus' file of a sandbox: %w", err)
	}
	return true, nil
}
