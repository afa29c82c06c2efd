package checkpoint

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// ErrNotFound means that there is no such record.
var ErrNotFound = errors.New("no such record")

// ErrStatusStored means that the pod's network-status lists the attachment, so that its
// containers may run.
var ErrStatusStored = errors.New("its network-status is stored")

// Store holds the records of this node: in memory for readers, and in one file for each
// claim for the next process. Its methods are safe for concurrent use. A change is on
// disk when the method returns, also after a power cut, unless the method says otherwise. If
// writing fails, nothing has changed in memory, and the disk may have either version.
type Store struct {
	dir    string
	bootID string

	files   *claimFiles // files.mu is held during a change of records
	pending *pendingDELs
	damaged damagedFiles

	// mu guards the following fields. It is never held while a file is written, because
	// every event of every pod on the node reads them.
	mu     sync.RWMutex
	claims map[string][]Record
	// byPod has the UIDs of the claims with records of a pod.
	byPod map[string]map[string]bool
}

// fileName matches the UIDs that become file names. UIDs come from the API server; this
// keeps any other text from becoming a path, and a name from becoming too long.
var fileName = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$`)

func claimsDir(dir string) string  { return filepath.Join(dir, "claims") }
func pendingDir(dir string) string { return filepath.Join(dir, "pending-dels") }
func damagedDir(dir string) string { return filepath.Join(dir, "damaged") }

// New returns a Store for the files below dir that has no records yet and has read nothing.
// bootID is the running kernel's (/proc/sys/kernel/random/boot_id) and becomes part of every
// new attachment.
func New(dir, bootID string) *Store {
	return &Store{
		dir: dir, bootID: bootID,
		files: newClaimFiles(claimsDir(dir)), pending: newPendingDELs(pendingDir(dir)), damaged: damagedFiles{damagedDir(dir)},
		claims: map[string][]Record{}, byPod: map[string]map[string]bool{},
	}
}

// Try returns the error with which Load, or the first change after it, would fail. It changes no record, and
// another process may write to the directory meanwhile.
func (s *Store) Try() error {
	if err := makeDirs(s.dir); err != nil {
		return err
	}
	for _, d := range dirsOf(s.dir) {
		if err := atomicfile.Try(filepath.Join(d, "try"), nil, fileMode); err != nil {
			return reason.Errorf(reason.StateNotWritten, "writing to the state directory: %w", err)
		}
	}
	return refuseLaterVersions(claimsDir(s.dir), pendingDir(s.dir))
}

// dirsOf returns the directories of the files of the state.
func dirsOf(dir string) []string {
	return []string{claimsDir(dir), pendingDir(dir), damagedDir(dir)}
}

func makeDirs(dir string) error {
	for _, d := range dirsOf(dir) {
		if err := atomicfile.MkdirAll(d, 0o700); err != nil {
			return reason.Errorf(reason.StateNotWritten, "making the state directory: %w", err)
		}
	}
	return nil
}

// Load reads all records, and creates the directory if necessary. The caller calls it once,
// before it changes any record, and makes sure that no other process writes to the directory.
// Load moves files away that are damaged and returns them; they are not an error. It refuses
// files of an unknown format version and leaves all files as they are: what they say is not lost.
func (s *Store) Load() ([]Damaged, error) {
	if err := makeDirs(s.dir); err != nil {
		return nil, err
	}
	if err := refuseLaterVersions(claimsDir(s.dir), pendingDir(s.dir)); err != nil {
		return nil, err
	}
	if err := s.files.restore(); err != nil {
		return nil, err
	}
	claims, err := s.damaged.load(claimsDir(s.dir), func(name string, data []byte) error {
		records, err := decodeClaimFile(data, name)
		if err == nil {
			s.mu.Lock()
			s.set(name, records)
			s.mu.Unlock()
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	dels, err := s.damaged.load(pendingDir(s.dir), s.pending.load)
	return append(claims, dels...), err
}

// Dir returns the directory of the claims' files, which the gate reads. A file is named
// by the UID of a claim, or of a pod that has attachments without one.
func (s *Store) Dir() string { return claimsDir(s.dir) }

// BootID returns the boot ID that was passed to Open.
func (s *Store) BootID() string { return s.bootID }

// Writes returns how many files of claims were written since Open, and how many of them
// were synced before the caller went on.
func (s *Store) Writes() (all, waited uint64) { return s.files.writes.Load(), s.files.waited.Load() }

// WaitSynced returns when all changes are on disk, or have failed to get there.
func (s *Store) WaitSynced() { s.files.syncing.Wait() }

// CountDamaged returns the number of unreadable files in the state directory, from this
// process and earlier ones.
func (s *Store) CountDamaged() int { return s.damaged.count() }

// Put adds the attachments of one claim as Prepared. If the claim has records already,
// they stay as they are: a repeated Prepare neither forgets an attachment nor starts a
// second one. Those of another pod are replaced, and none of them may need a DEL.
func (s *Store) Put(prepared []attachment.Prepared) error {
	return s.put(prepared, nil)
}

// PutUnclaimed adds the attachments of a pod without a claim as Prepared, for one sandbox. If
// the pod has such records already, they stay as they are.
func (s *Store) PutUnclaimed(prepared []attachment.Prepared, sandbox attachment.Sandbox) error {
	return s.put(prepared, &sandbox)
}

// put adds records of one file, with the sandbox if they are without a claim.
func (s *Store) put(prepared []attachment.Prepared, sandbox *attachment.Sandbox) error {
	if len(prepared) == 0 {
		return nil
	}
	uid := fileUID(prepared[0])
	if !fileName.MatchString(uid) {
		return fmt.Errorf("UID %q cannot be a file name", uid)
	}
	records := make([]Record, len(prepared))
	for i, p := range prepared {
		if fileUID(p) != uid {
			return fmt.Errorf("records of %s and %s in one call", uid, fileUID(p))
		}
		records[i] = Record{Prepared: p, Phase: Prepared}
		if sandbox != nil {
			records[i].Sandbox, records[i].BootID = sandbox, s.bootID
		}
	}
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	switch before := s.ForClaim(uid); {
	case len(before) == 0:
	case before[0].Pod.UID == records[0].Pod.UID:
		return nil
	case slices.ContainsFunc(before, Record.NeedsDEL):
		return fmt.Errorf("a record of claim %s needs a DEL", before[0].Claim)
	}
	return s.replace(uid, records, onDisk)
}

// DeleteClaim forgets one claim as it was prepared for a pod, or what a pod has without a claim, for which uid is the
// pod's. The caller makes sure that no record of it needs a DEL.
func (s *Store) DeleteClaim(uid, podUID string) error {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	if !slices.ContainsFunc(s.ForClaim(uid), func(r Record) bool { return r.Pod.UID == podUID }) {
		return nil
	}
	return s.forget(uid)
}

// forget removes the file of a claim, and its records. The caller holds files.mu.
func (s *Store) forget(uid string) error {
	if err := s.files.remove(uid); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(uid, nil)
	return nil
}

// ForClaim returns the records of one claim in the order of its requests, or those that a
// pod has without a claim, by the pod's UID.
func (s *Store) ForClaim(uid string) []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.claims[uid])
}

// ForPod returns the records of all claims of a pod in the order in which they are
// attached. Its cost does not depend on other pods.
func (s *Store) ForPod(uid string) []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Record
	for claim := range s.byPod[uid] {
		for _, r := range s.claims[claim] {
			if r.Pod.UID == uid {
				out = append(out, r)
			}
		}
	}
	return inAttachOrder(out)
}

// All returns all records, grouped by pod in the order in which they are attached.
func (s *Store) All() []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Record
	for _, records := range s.claims {
		out = append(out, records...)
	}
	return inAttachOrder(out)
}

// Each yields all records in no order. It copies no record: every pod asks for a few of all. Records never change, so
// that the loop may keep one. It must not change one, call methods of the store, or take a lock of somebody who does.
func (s *Store) Each(yield func(*Record) bool) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	for _, records := range s.claims {
		for i := range records {
			if !yield(&records[i]) {
				return
			}
		}
	}
}

func inAttachOrder(out []Record) []Record {
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(
			strings.Compare(a.Pod.UID, b.Pod.UID),
			cmp.Compare(a.Index, b.Index),
			strings.Compare(a.FileUID(), b.FileUID()),
		)
	})
	return out
}

// update changes records and writes the file of each of their claims once.
func (s *Store) update(keys []Key, when durability, change func(*Record) error) error {
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	changed := map[string][]Record{}
	for _, k := range keys {
		records, ok := changed[k.FileUID]
		if !ok {
			records = s.ForClaim(k.FileUID)
			changed[k.FileUID] = records
		}
		i := slices.IndexFunc(records, func(r Record) bool { return r.Key() == k })
		if i < 0 {
			return fmt.Errorf("%w: %s", ErrNotFound, k)
		}
		if err := change(&records[i]); err != nil {
			return err
		}
	}
	for uid, records := range changed {
		if err := s.replace(uid, records, when); err != nil {
			return err
		}
	}
	return nil
}

// replace writes the records of one claim and then shows them to readers. The caller
// holds files.mu.
func (s *Store) replace(uid string, records []Record, when durability) error {
	data, err := encodeClaimFile(records)
	if err != nil {
		return fmt.Errorf("encoding the records of claim %s: %w", uid, err)
	}
	failpoint.Reach(failpoint.BeforeRecordWrite)
	if err := s.files.write(uid, data, when); err != nil {
		return reason.Errorf(reason.StateNotWritten, "writing the records of claim %s: %w", uid, err)
	}
	failpoint.Reach(failpoint.AfterRecordWrite)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(uid, records)
	return nil
}

// set shows the records of a claim to readers, or removes them. The caller holds mu.
func (s *Store) set(uid string, records []Record) {
	for _, r := range s.claims[uid] {
		delete(s.byPod[r.Pod.UID], uid)
		if len(s.byPod[r.Pod.UID]) == 0 {
			delete(s.byPod, r.Pod.UID)
		}
	}
	if len(records) == 0 {
		delete(s.claims, uid)
		return
	}
	s.claims[uid] = records
	for _, r := range records {
		if s.byPod[r.Pod.UID] == nil {
			s.byPod[r.Pod.UID] = map[string]bool{}
		}
		s.byPod[r.Pod.UID][uid] = true
	}
}
