package checkpoint

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"time"

	"github.com/nadra-dev/nadra/internal/failpoint"
)

// Debt is a CNI DEL that failed for so long that its record was given back:
// the pod may go, or have another sandbox, and the DEL is tried on.
type Debt struct {
	// Record is the attachment as it was, with all that its DEL needs.
	Record Record `json:"record"`
	// Since is when the record was handed over.
	Since time.Time `json:"since"`
	// Cause is the error of the last DEL before.
	Cause string `json:"cause"`
}

// name identifies the debt: one attachment in one sandbox.
func (d Debt) name() string {
	sum := sha256.Sum256([]byte(d.Record.DELKey()))
	return hex.EncodeToString(sum[:16])
}

// debtFile is the content of one debt's file.
type debtFile struct {
	Version int `json:"version"`
	Debt
}

// HandOver makes a debt of a record for which a DEL is owed; nothing is owed
// by the record any more. A crash in between leaves both, and costs a second
// DEL, which is none.
func (s *Store) HandOver(key Key, cause error) error {
	records := s.ForClaim(key.ClaimUID)
	i := slices.IndexFunc(records, func(r Record) bool { return r.Key() == key })
	if i < 0 {
		return fmt.Errorf("%w: %s", ErrNotFound, key)
	}
	d := Debt{Record: records[i], Since: time.Now().UTC(), Cause: cause.Error()}
	if !d.Record.DELOwed() {
		return nil
	}
	data, err := encode(debtFile{Version: FormatVersion, Debt: d})
	if err != nil {
		return fmt.Errorf("encoding the debt of %s: %w", key, err)
	}
	failpoint.Reach(failpoint.BeforeRecordWrite)
	if err := replaceFile(s.debtPath(d), data); err != nil {
		return fmt.Errorf("writing the debt of %s: %w", key, err)
	}
	if err := syncDir(s.owedDir()); err != nil {
		return fmt.Errorf("writing the debt of %s: %w", key, err)
	}
	failpoint.Reach(failpoint.AfterRecordWrite)
	s.mu.Lock()
	s.debts[d.name()] = d
	s.mu.Unlock()
	return s.MarkDetached(key)
}

// Debts returns all debts, the oldest first.
func (s *Store) Debts() []Debt {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return slices.SortedFunc(maps.Values(s.debts), func(a, b Debt) int {
		return cmp.Or(a.Since.Compare(b.Since), cmp.Compare(a.name(), b.name()))
	})
}

// Settle forgets a debt whose DEL has succeeded.
func (s *Store) Settle(d Debt) error {
	failpoint.Reach(failpoint.BeforeRecordDelete)
	if err := removeIfThere(s.debtPath(d)); err != nil {
		return fmt.Errorf("forgetting the debt of %s: %w", d.Record.Key(), err)
	}
	failpoint.Reach(failpoint.AfterRecordDelete)
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.debts, d.name())
	return nil
}

func (s *Store) debtPath(d Debt) string { return filepath.Join(s.owedDir(), d.name()+".json") }

// decodeDebt reads one debt's file.
func decodeDebt(data []byte) (Debt, error) {
	var f debtFile
	if err := json.Unmarshal(data, &f); err != nil {
		return Debt{}, fmt.Errorf("decoding JSON: %w", err)
	}
	if f.Version != FormatVersion {
		return Debt{}, fmt.Errorf("format version %d is not %d: the file was written by another version of nadra", f.Version, FormatVersion)
	}
	if !f.Record.DELOwed() {
		return Debt{}, fmt.Errorf("phase %q owes no DEL", f.Record.Phase)
	}
	return f.Debt, f.Record.check(f.Record.Claim.UID)
}
