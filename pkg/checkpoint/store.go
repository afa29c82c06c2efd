package checkpoint

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// ErrNotFound means that there is no such record.
var ErrNotFound = errors.New("no such record")

// ErrStatusStored means that the pod's network-status lists the attachment, so
// that its containers may run.
var ErrStatusStored = errors.New("its network-status is stored")

// Store holds the records of this node, in memory for reading and in one file
// per claim for the next process. Its methods are safe for concurrent use.
// A change is on disk before the method returns, or in the hands of the kernel
// where it says so; when writing fails nothing has changed, neither on disk nor
// in memory.
type Store struct {
	dir    string
	bootID string

	// writing is held by whoever changes records, over the write to disk.
	writing sync.Mutex
	// unsynced are the latest files of claims that are not yet on disk, and
	// guarded by writing; later is their syncing.
	unsynced map[string]*os.File
	later    sync.WaitGroup
	// mu guards what follows and is held for memory only: a pod without claims
	// asks too, and must not wait for a disk.
	mu     sync.RWMutex
	claims map[string][]Record
	// byPod has the UIDs of the claims with records of a pod.
	byPod map[string]map[string]bool
	debts map[string]Debt // by file name

	writes, waited atomic.Uint64
}

// Writes tells how many files of claims were written since Open, and for how
// many of them somebody waited until they were on disk.
func (s *Store) Writes() (all, waited uint64) { return s.writes.Load(), s.waited.Load() }

// Damaged tells of a file that was put aside because it could not be read.
type Damaged struct {
	// Path is where the file is now.
	Path string
	// Name is the file's name before: that of a claim's file is its UID.
	Name string
	// Err says what is wrong with it.
	Err error
}

// claimUID is what the name of a claim's file may be made of. UIDs come from
// the API server; this keeps any other text from becoming a path.
var claimUID = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]*$`)

// Open reads all records below dir, which is made where it is missing. bootID
// is the running kernel's (/proc/sys/kernel/random/boot_id) and is noted with
// everything that is attached from now on. Files that cannot be understood are
// moved aside and returned; they are not an error.
func Open(dir, bootID string) (*Store, []Damaged, error) {
	s := &Store{dir: dir, bootID: bootID, unsynced: map[string]*os.File{}, claims: map[string][]Record{}, byPod: map[string]map[string]bool{}, debts: map[string]Debt{}}
	for _, d := range []string{s.claimsDir(), s.owedDir(), s.damagedDir()} {
		if err := os.MkdirAll(d, 0o700); err != nil {
			return nil, nil, fmt.Errorf("making the state directory: %w", err)
		}
	}
	if err := s.restoreKept(); err != nil {
		return nil, nil, err
	}
	claims, err := s.load(s.claimsDir(), func(name string, data []byte) error {
		records, err := decodeClaimFile(data, name)
		if err == nil {
			s.set(name, records)
		}
		return err
	})
	if err != nil {
		return nil, nil, err
	}
	debts, err := s.load(s.owedDir(), func(name string, data []byte) error {
		debt, err := decodeDebt(data)
		if err == nil {
			s.debts[name] = debt
		}
		return err
	})
	return s, append(claims, debts...), err
}

// load has every file of a directory decoded, by its name without ".json", and
// puts aside those that cannot be.
func (s *Store) load(dir string, decode func(name string, data []byte) error) ([]Damaged, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("reading the state directory: %w", err)
	}
	var damaged []Damaged
	for _, e := range entries {
		path, name := filepath.Join(dir, e.Name()), strings.TrimSuffix(e.Name(), ".json")
		if strings.HasPrefix(name, ".tmp-") {
			// Left by a crash between write and rename. On a disk that is
			// read-only for now it stays, and does no harm.
			_ = os.Remove(path)
			continue
		}
		if strings.HasPrefix(name, kept) {
			continue
		}
		data, err := os.ReadFile(path)
		if err == nil {
			err = decode(name, data)
		}
		if err != nil {
			damaged = append(damaged, s.putAside(path, name, err))
		}
	}
	return damaged, nil
}

// putAside moves a file that could not be read out of the way.
func (s *Store) putAside(path, name string, why error) Damaged {
	aside := filepath.Join(s.damagedDir(), fmt.Sprintf("%s.%d", filepath.Base(path), time.Now().UnixNano()))
	if err := os.Rename(path, aside); err != nil {
		return Damaged{Path: path, Name: name, Err: errors.Join(why, fmt.Errorf("putting it aside: %w", err))}
	}
	return Damaged{Path: aside, Name: name, Err: why}
}

// PutAside counts the files that were put aside since the directory was made,
// and that nobody has removed.
func (s *Store) PutAside() int {
	entries, err := os.ReadDir(s.damagedDir())
	if err != nil {
		return 0
	}
	return len(entries)
}

// BootID is the boot ID that was given to Open.
func (s *Store) BootID() string { return s.bootID }

// Put notes the attachments of one claim as Prepared. When records of the
// claim are there already they stay as they are, so that a repeated Prepare
// neither forgets an attachment nor starts a second one.
func (s *Store) Put(prepared []attachment.Prepared) error {
	if len(prepared) == 0 {
		return nil
	}
	uid := prepared[0].Claim.UID
	if !claimUID.MatchString(uid) {
		return fmt.Errorf("claim UID %q cannot be a file name", uid)
	}
	records := make([]Record, len(prepared))
	for i, p := range prepared {
		if p.Claim.UID != uid {
			return fmt.Errorf("claims %s and %s in one call", uid, p.Claim.UID)
		}
		records[i] = Record{Prepared: p, Phase: Prepared}
	}
	s.writing.Lock()
	defer s.writing.Unlock()
	if len(s.ForClaim(uid)) > 0 {
		return nil
	}
	if err := s.replace(uid, records, onDisk); err != nil {
		return err
	}
	return syncDir(s.claimsDir())
}

// MarkAttaching notes that plugins are about to run for these records in the
// sandbox: from now on a DEL is owed. Records of one claim cost one write.
func (s *Store) MarkAttaching(keys []Key, sandbox attachment.Sandbox) error {
	return s.update(keys, onDisk, func(r *Record) error {
		if r.DELOwed() {
			return fmt.Errorf("%s is %s for sandbox %s: a DEL is owed first", r.Key(), r.Phase, r.Sandbox.ID)
		}
		*r = Record{Prepared: r.Prepared, Phase: Attaching, Sandbox: &sandbox, BootID: s.bootID}
		return nil
	})
}

// MarkGiven notes the sandbox whose containers have devices to which nothing is
// attached. No DEL is owed for them.
func (s *Store) MarkGiven(keys []Key, sandbox attachment.Sandbox) error {
	return s.update(keys, onDisk, func(r *Record) error {
		if !r.DeviceOnly {
			return fmt.Errorf("%s is to be attached to network %s", r.Key(), r.Attachment.Network)
		}
		*r = Record{Prepared: r.Prepared, Phase: Prepared, Sandbox: &sandbox, BootID: s.bootID}
		return nil
	})
}

// MarkDisplaced notes which default routes are about to be taken away for this
// record, in addition to those that were.
func (s *Store) MarkDisplaced(key Key, routes []Route) error {
	return s.update([]Key{key}, onDisk, func(r *Record) error {
		if !r.DELOwed() {
			return fmt.Errorf("%s is %s: nothing is attached that a route could be taken away for", r.Key(), r.Phase)
		}
		displaced := slices.Clone(r.Displaced) // readers have the old one
		for _, route := range routes {
			if !slices.ContainsFunc(displaced, func(d Route) bool { return reflect.DeepEqual(d, route) }) {
				displaced = append(displaced, route)
			}
		}
		r.Displaced = displaced
		return nil
	})
}

// Added is what the ADD of one record has come to.
type Added struct {
	Key Key
	// Result is the chain's result, DeviceInfo what its plugins told about the
	// device; nothing where they did not.
	Result, DeviceInfo json.RawMessage
	// StatusStored is the record's: true where containers do not wait for the
	// pod's network-status.
	StatusStored bool
}

// MarkAttached notes the results of ADDs. Records of one claim cost one write,
// which is on disk soon after: without it they are Attaching, and owe a DEL too.
func (s *Store) MarkAttached(added ...Added) error {
	keys := make([]Key, len(added))
	results := make(map[Key]Added, len(added))
	for i, a := range added {
		keys[i], results[a.Key] = a.Key, a
	}
	return s.update(keys, soon, func(r *Record) error {
		if r.Phase != Attaching {
			return fmt.Errorf("%s is %s, not Attaching", r.Key(), r.Phase)
		}
		a := results[r.Key()]
		r.Phase, r.Result, r.DeviceInfo, r.StatusStored = Attached, a.Result, a.DeviceInfo, a.StatusStored
		return nil
	})
}

// MarkStatusStored notes that the pod's network-status lists these records, as
// they were read from the store: the gate may let containers start. It passes
// over a record that has changed since, and a claim that was forgotten.
func (s *Store) MarkStatusStored(listed []Record) error {
	var keys []Key
	byKey := make(map[Key]Record, len(listed))
	for _, r := range listed {
		if i := slices.IndexFunc(s.ForClaim(r.Claim.UID), r.sameAttachment); i >= 0 {
			keys, byKey[r.Key()] = append(keys, r.Key()), r
		}
	}
	err := s.update(keys, soon, func(r *Record) error {
		if byKey[r.Key()].sameAttachment(*r) {
			r.StatusStored = true
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) { // unprepared meanwhile
		return nil
	}
	return err
}

// MarkDetaching notes that attachments are about to be taken down in a sandbox
// that goes on: from here on they do not count as attached, and owe a DEL, also
// when it cannot be written any more that they have had it.
func (s *Store) MarkDetaching(keys ...Key) error {
	return s.update(keys, soon, (*Record).beginDetaching)
}

// MarkUnlistedDetaching is MarkDetaching for attachments whose network-status is
// not stored. It refuses them all with ErrStatusStored where that of one of them
// has been stored meanwhile: the gate may have let containers start.
func (s *Store) MarkUnlistedDetaching(keys ...Key) error {
	return s.update(keys, soon, func(r *Record) error {
		if r.StatusStored {
			return fmt.Errorf("%s: %w", r.Key(), ErrStatusStored)
		}
		return r.beginDetaching()
	})
}

// beginDetaching changes an attached record to one that owes a DEL.
func (r *Record) beginDetaching() error {
	if r.Phase != Attached {
		return fmt.Errorf("%s is %s, not Attached", r.Key(), r.Phase)
	}
	r.Phase, r.Result, r.DeviceInfo, r.StatusStored = Attaching, nil, nil, false
	return nil
}

// MarkDetached notes that the DELs of these records have succeeded: nothing is
// owed any more. That is on disk soon after: without it the DELs are repeated.
func (s *Store) MarkDetached(keys ...Key) error {
	return s.update(keys, soon, func(r *Record) error {
		*r = Record{Prepared: r.Prepared, Phase: Prepared, Refusal: r.Refusal}
		return nil
	})
}

// MarkRefused has the gate refuse containers that lack one of these
// attachments at once, with this reason, and not hold them until its time is
// over. It ends with the next MarkAttaching, and with the node's life.
func (s *Store) MarkRefused(keys []Key, reason string) error {
	return s.update(keys, soon, func(r *Record) error {
		r.Refusal = reason
		return nil
	})
}

// DeleteClaim forgets one claim, and only that one. The caller has made sure
// that no DEL is owed, or has given it up.
func (s *Store) DeleteClaim(uid string) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	if len(s.ForClaim(uid)) == 0 {
		return nil
	}
	failpoint.Reach(failpoint.BeforeRecordDelete)
	s.forgetKept(uid) // first: what is left of a claim is its latest file
	if err := removeIfThere(s.path(uid)); err != nil {
		return fmt.Errorf("forgetting claim %s: %w", uid, err)
	}
	failpoint.Reach(failpoint.AfterRecordDelete)
	s.mu.Lock()
	s.set(uid, nil)
	s.mu.Unlock()
	return syncDir(s.claimsDir())
}

// ForClaim returns the records of one claim in the order of its requests.
func (s *Store) ForClaim(uid string) []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.Clone(s.claims[uid])
}

// ForPod returns the records of one pod, from all its claims, in the order in
// which they are to be attached. Its cost does not grow with the other pods:
// every event of every pod of the node asks.
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

// All returns every record, grouped by pod in attach order.
func (s *Store) All() []Record {
	s.mu.RLock()
	defer s.mu.RUnlock()
	var out []Record
	for _, records := range s.claims {
		out = append(out, records...)
	}
	return inAttachOrder(out)
}

func inAttachOrder(out []Record) []Record {
	slices.SortFunc(out, func(a, b Record) int {
		return cmp.Or(
			strings.Compare(a.Pod.UID, b.Pod.UID),
			cmp.Compare(a.Index, b.Index),
			strings.Compare(a.Claim.UID, b.Claim.UID),
		)
	})
	return out
}

// Dir is the directory with one file per claim, named for its UID, that the
// gate reads.
func (s *Store) Dir() string { return s.claimsDir() }

func (s *Store) claimsDir() string      { return filepath.Join(s.dir, "claims") }
func (s *Store) owedDir() string        { return filepath.Join(s.dir, "owed") }
func (s *Store) damagedDir() string     { return filepath.Join(s.dir, "damaged") }
func (s *Store) path(uid string) string { return filepath.Join(s.claimsDir(), uid+".json") }
