package checkpoint

import (
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/internal/failpoint"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

// PendingDEL is a CNI DEL that has failed for so long that the pod no longer waits for
// it. It is retried until it succeeds.
type PendingDEL struct {
	// Record is the attachment with everything that its DEL needs.
	Record Record `json:"record"`
	// Since is the time at which the DEL was deferred.
	Since time.Time `json:"since"`
	// Cause is the error of the last DEL before that.
	Cause string `json:"cause"`
}

// fileName returns the name of the pending DEL's file without extension. It is unique
// for an attachment in a sandbox, and with conf for one of that configuration.
func (p PendingDEL) fileName(conf []byte) string {
	sum := sha256.Sum256(append([]byte(p.Record.DELKey()), conf...))
	return hex.EncodeToString(sum[:16])
}

// conf returns the configuration of the attachment as files have it, without spaces.
func (p PendingDEL) conf() []byte {
	var out bytes.Buffer
	if json.Compact(&out, p.Record.Attachment.Conflist) != nil {
		return p.Record.Attachment.Conflist // plugins do not run
	}
	return out.Bytes()
}

// pendingDELFile is the content of a pending DEL's file.
type pendingDELFile struct {
	Version int `json:"version"`
	PendingDEL
}

// pendingDELs are the pending DELs of the node, in memory and on disk.
type pendingDELs struct {
	dir string
	mu  sync.RWMutex
	all map[string]PendingDEL // by file name
}

func newPendingDELs(dir string) *pendingDELs {
	return &pendingDELs{dir: dir, all: map[string]PendingDEL{}}
}

func (p *pendingDELs) path(name string) string { return filepath.Join(p.dir, name+".json") }

// nameOf returns the name of a pending DEL: that of its attachment in its sandbox, unless a DEL of the attachment with
// another configuration has it. That one has to run, too, because its plugins may have got something else.
func (p *pendingDELs) nameOf(del PendingDEL) string {
	p.mu.RLock()
	defer p.mu.RUnlock()
	name, conf := del.fileName(nil), del.conf()
	first, found := p.all[name]
	if found && bytes.Equal(first.conf(), conf) {
		return name
	}
	own := del.fileName(conf)
	if _, beside := p.all[own]; found || beside {
		return own
	}
	return name
}

// add writes a pending DEL. It replaces an earlier one of the same attachment and configuration.
func (p *pendingDELs) add(del PendingDEL) error {
	data, err := encode(pendingDELFile{Version: versionOf(del.Record), PendingDEL: del})
	if err != nil {
		return fmt.Errorf("encoding the pending DEL of %s: %w", del.Record.Key(), err)
	}
	failpoint.Reach(failpoint.BeforeRecordWrite)
	name := p.nameOf(del)
	if err := atomicfile.Write(p.path(name), data, fileMode); err != nil {
		return reason.Errorf(reason.StateNotWritten, "writing the pending DEL of %s: %w", del.Record.Key(), err)
	}
	failpoint.Reach(failpoint.AfterRecordWrite)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.all[name] = del
	return nil
}

// remove forgets a pending DEL for good: its DEL may not run again when another pod has its device.
func (p *pendingDELs) remove(del PendingDEL) error {
	failpoint.Reach(failpoint.BeforeRecordDelete)
	name := p.nameOf(del)
	if err := atomicfile.RemoveForGood(p.path(name)); err != nil {
		return reason.Errorf(reason.StateNotWritten, "forgetting the pending DEL of %s: %w", del.Record.Key(), err)
	}
	failpoint.Reach(failpoint.AfterRecordDelete)
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.all, name)
	return nil
}

// list returns all pending DELs, the oldest first.
func (p *pendingDELs) list() []PendingDEL {
	p.mu.RLock()
	defer p.mu.RUnlock()
	// By the names of the files, because a name costs a hash, and a tenant decides how many DELs fail.
	names := slices.SortedFunc(maps.Keys(p.all), func(a, b string) int {
		return cmp.Or(p.all[a].Since.Compare(p.all[b].Since), cmp.Compare(a, b))
	})
	var out []PendingDEL
	for _, name := range names {
		out = append(out, p.all[name])
	}
	return out
}

// load adds the pending DEL in a file that was read.
func (p *pendingDELs) load(name string, data []byte) error {
	del, err := decodePendingDEL(data)
	if err == nil {
		p.mu.Lock()
		p.all[name] = del
		p.mu.Unlock()
	}
	return err
}

// decodePendingDEL decodes the content of a pending DEL's file.
func decodePendingDEL(data []byte) (PendingDEL, error) {
	var f pendingDELFile
	if err := json.Unmarshal(data, &f); err != nil {
		return PendingDEL{}, fmt.Errorf("decoding JSON: %w", err)
	}
	if err := checkVersion(f.Version); err != nil {
		return PendingDEL{}, err
	}
	if !f.Record.NeedsDEL() {
		return PendingDEL{}, fmt.Errorf("phase %q needs no DEL", f.Record.Phase)
	}
	return f.PendingDEL, f.Record.check(f.Record.FileUID())
}

// DeferDEL makes a pending DEL of a record that needs a DEL. The record needs none
// afterwards. A crash in between leaves both, which costs a second DEL.
func (s *Store) DeferDEL(key Key, cause error) error {
	records := s.ForClaim(key.FileUID)
	i := slices.IndexFunc(records, func(r Record) bool { return r.Key() == key })
	if i < 0 {
		return fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	if !records[i].NeedsDEL() {
		return nil
	}
	if err := s.pending.add(PendingDEL{Record: records[i], Since: time.Now().UTC(), Cause: cause.Error()}); err != nil {
		return err
	}
	return s.MarkDetached(key)
}

// PendingDELs returns all pending DELs, the oldest first.
func (s *Store) PendingDELs() []PendingDEL { return s.pending.list() }

// Holders yields all records, and then the record of each pending DEL with the DEL: all that may still have a device. Who
// reads the DELs first may miss an attachment whose DEL is deferred, and its record deleted, in between. A loop must obey
// the rules of Each.
func (s *Store) Holders(yield func(*Record, *PendingDEL) bool) {
	for r := range s.Each {
		if !yield(r, nil) {
			return
		}
	}
	dels := s.PendingDELs()
	for i := range dels {
		if !yield(&dels[i].Record, &dels[i]) {
			return
		}
	}
}

// ResolveDEL forgets a pending DEL that has succeeded.
func (s *Store) ResolveDEL(del PendingDEL) error { return s.pending.remove(del) }
