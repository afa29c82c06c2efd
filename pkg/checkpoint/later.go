package checkpoint

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// Some changes may be lost in a power cut: with that an attachment is still
// Attaching that was Attached, or owes a DEL that it has had, and both cost one
// more DEL after the boot. Nobody waits for the disk with them. Until the new
// file is on disk, the last one that is has a second name, under which the next
// start finds it should the new one be torn.

// kept begins that name; the claim's UID follows.
const kept = ".synced-"

func (s *Store) keptPath(uid string) string { return filepath.Join(s.claimsDir(), kept+uid) }

// writeLater replaces a claim's file for everybody who reads it, now or after
// this process has died, and has it synced in the background. The caller holds
// writing.
func (s *Store) writeLater(uid string, data []byte) error {
	// There is one already while an earlier change is being synced.
	if err := os.Link(s.path(uid), s.keptPath(uid)); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("keeping what is on disk: %w", err)
	}
	file, err := writeFile(s.path(uid), data, false)
	if err != nil {
		return err
	}
	s.unsynced[uid] = file
	s.later.Go(func() { s.syncLater(uid, file) })
	return nil
}

// syncLater makes a written file durable. When that fails what was on disk
// before stays there too.
func (s *Store) syncLater(uid string, file *os.File) {
	err := errors.Join(file.Sync(), file.Close())
	s.writing.Lock()
	defer s.writing.Unlock()
	if s.unsynced[uid] == file && err == nil { // else a later change has its own
		s.forgetKept(uid)
	}
}

// Settled returns when all that was written is on disk, or could not be.
func (s *Store) Settled() { s.later.Wait() }

// forgetKept drops the second name of what was on disk before. The caller holds
// writing. A name that stays is found at the next start, and does no harm.
func (s *Store) forgetKept(uid string) {
	if _, found := s.unsynced[uid]; found {
		delete(s.unsynced, uid)
		_ = os.Remove(s.keptPath(uid))
	}
}

// restoreKept goes through what the last process had not synced: a file that
// can be read is, and one that cannot gives way to what was on disk before.
func (s *Store) restoreKept() error {
	names, err := filepath.Glob(s.keptPath("*"))
	if err != nil {
		return err
	}
	for _, name := range names {
		uid := strings.TrimPrefix(filepath.Base(name), kept)
		file, err := s.openWhole(uid)
		switch {
		case err != nil:
			err = os.Rename(name, s.path(uid))
		case errors.Join(file.Sync(), file.Close()) == nil:
			err = removeIfThere(name)
		default: // both stay, until the claim's next change
			s.unsynced[uid] = nil
		}
		if err != nil {
			return fmt.Errorf("going back to what was on disk of claim %s: %w", uid, err)
		}
	}
	return nil
}

// openWhole opens a claim's file if it can be read and understood.
func (s *Store) openWhole(uid string) (*os.File, error) {
	file, err := os.Open(s.path(uid))
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
