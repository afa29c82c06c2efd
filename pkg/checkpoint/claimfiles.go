package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// durability is when a change must be on disk.
type durability bool

const (
	onDisk durability = false // before the call returns
	soon   durability = true  // in the background
)

// syncedPrefix begins the second name of a file's synced version; the claim's UID
// follows.
const syncedPrefix = ".synced-"

// fileMode is the mode of all files of the state.
const fileMode = 0o600

// claimFiles are the claims' files in one directory. The caller serializes all changes.
//
// A power cut may lose some changes: after the boot an Attached record is Attaching again,
// or a record needs a DEL that has succeeded already. Each costs one more DEL, so callers do
// not wait for the disk with such a change. Until the new file is synced, the last synced
// version has a second name. If the new file is torn, the next start goes back to that
// version.
type claimFiles struct {
	dir string
	// mu guards unsynced, the claims' latest files that are not synced yet, for as long as the second name
	// exists; nil if writing has failed. The Store holds it during a change.
	mu       sync.Mutex
	unsynced map[string]*os.File
	syncing  sync.WaitGroup

	writes, waited atomic.Uint64
}

func newClaimFiles(dir string) *claimFiles {
	return &claimFiles{dir: dir, unsynced: map[string]*os.File{}}
}

func (f *claimFiles) path(uid string) string       { return filepath.Join(f.dir, uid+".json") }
func (f *claimFiles) syncedPath(uid string) string { return filepath.Join(f.dir, syncedPrefix+uid) }

// write writes a claim's file. The caller holds mu.
func (f *claimFiles) write(uid string, data []byte, when durability) error {
	f.writes.Add(1)
	if when == soon {
		return f.writeUnsynced(uid, data)
	}
	f.waited.Add(1)
	if err := atomicfile.Write(f.path(uid), data, fileMode); err != nil {
		return err
	}
	f.dropSynced(uid)
	return nil
}

// writeUnsynced replaces a claim's file for everybody who reads it, also after this
// process has died, and syncs it in the background. The caller holds mu.
func (f *claimFiles) writeUnsynced(uid string, data []byte) error {
	// The second name exists already if an earlier change is being synced.
	if err := os.Link(f.path(uid), f.syncedPath(uid)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping the synced version: %w", err)
	}
	if _, found := f.unsynced[uid]; !found {
		f.unsynced[uid] = nil // if writing fails, the next change removes the second name
	}
	file, err := atomicfile.WriteUnsynced(f.path(uid), data, fileMode)
	if err != nil {
		return err
	}
	f.unsynced[uid] = file
	f.syncing.Go(func() { f.sync(uid, file) })
	return nil
}

// sync makes a written file durable. If that fails, the synced version stays, too.
func (f *claimFiles) sync(uid string, file *os.File) {
	err := errors.Join(file.Sync(), file.Close(), atomicfile.SyncDir(f.dir))
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.unsynced[uid] == file && err == nil { // otherwise a later change is being synced
		f.dropSynced(uid)
	}
}

// dropSynced removes the second name of the synced version. The caller holds mu. A name
// that cannot be removed is found at the next start and does no harm.
func (f *claimFiles) dropSynced(uid string) {
	if _, found := f.unsynced[uid]; found {
		delete(f.unsynced, uid)
		_ = os.Remove(f.syncedPath(uid))
	}
}

// remove removes a claim's file for good: the record of a claim that nobody unprepares any more would
// keep its device. The caller holds mu.
func (f *claimFiles) remove(uid string) error {
	failpoint.Reach(failpoint.BeforeRecordDelete)
	f.dropSynced(uid) // first, so that a crash leaves the latest version
	if err := atomicfile.RemoveForGood(f.path(uid)); err != nil {
		return reason.Errorf(reason.StateNotWritten, "forgetting claim %s: %w", uid, err)
	}
	failpoint.Reach(failpoint.AfterRecordDelete)
	return nil
}

// restore handles what the last process had not synced: a file that can be read is
// synced now, and one that cannot is replaced by its synced version.
func (f *claimFiles) restore() error {
	names, err := filepath.Glob(f.syncedPath("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		uid := strings.TrimPrefix(filepath.Base(name), syncedPrefix)
		file, err := f.openWhole(uid)
		switch {
		case err != nil:
			err = os.Rename(name, f.path(uid))
		case errors.Join(file.Sync(), file.Close(), atomicfile.SyncDir(f.dir)) == nil:
			err = atomicfile.Remove(name)
		default: // both versions stay until the claim's next change
			f.unsynced[uid] = nil
		}
		if err != nil {
			return fmt.Errorf("going back to the synced version of claim %s: %w", uid, err)
		}
	}
	return nil
}

// openWhole opens a claim's file if it can be decoded.
func (f *claimFiles) openWhole(uid string) (*os.File, error) {
	file, err := os.Open(f.path(uid))
	if err != nil {
		return nil, err
	}
	data, err := io.ReadAll(file)
	if err == nil {
		_, err = decodeClaimFile(data, uid)
	}
	if err != nil {
		return nil, errors.Join(err, file.Close())
	}
	return file, nil
}
