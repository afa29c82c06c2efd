package checkpoint

import (
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// AddLive adds an attachment without a claim to a sandbox whose containers may run already.
// It replaces a withdrawn one of the same interface that needs no DEL.
func (s *Store) AddLive(prepared attachment.Prepared, sandbox attachment.Sandbox) (Record, error) {
	r := Record{Prepared: prepared, Phase: Prepared, Sandbox: &sandbox, BootID: s.bootID, Edit: Edit{LiveIn: sandbox.ID}}
	uid := r.FileUID()
	if !r.Unclaimed() || !fileName.MatchString(uid) {
		return r, fmt.Errorf("%s cannot be added to sandbox %s: it has a claim, or a UID that cannot be a file name", r.Key(), sandbox.ID)
	}
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	records := s.ForClaim(uid)
	first := len(records) == 0
	if i := slices.IndexFunc(records, func(o Record) bool { return o.Key() == r.Key() }); i >= 0 {
		if o := records[i]; !o.Withdrawn || o.NeedsDEL() {
			return r, fmt.Errorf("%s is there already, phase %s", r.Key(), o.Phase)
		}
		records = slices.Delete(records, i, i+1)
	}
	if err := s.replace(uid, append(records, r), onDisk); err != nil {
		return r, err
	}
	if first {
		return r, s.syncDir(uid)
	}
	return r, nil
}

// MarkWithdrawn records that the pod's annotation does not name these networks any more. What
// is attached needs a DEL from now on, even if its successful DEL cannot be recorded any more.
func (s *Store) MarkWithdrawn(keys ...Key) error {
	return s.update(keys, soon, func(r *Record) error {
		r.Withdrawn, r.Refusal = true, ""
		if r.Phase == Attached {
			return r.beginDetaching()
		}
		return nil
	})
}

// MarkWanted records that the pod's annotation names the networks of claims again. sandboxID is
// the sandbox to which they are added while its containers may run, or "" for a new sandbox,
// whose containers wait for them.
func (s *Store) MarkWanted(sandboxID string, keys ...Key) error {
	return s.update(keys, soon, func(r *Record) error {
		r.Withdrawn, r.LiveIn = false, sandboxID
		return nil
	})
}

// Reorder sets the positions of records in their pod's plan.
func (s *Store) Reorder(index map[Key]int) error {
	keys := make([]Key, 0, len(index))
	for k := range index {
		keys = append(keys, k)
	}
	return s.update(keys, soon, func(r *Record) error {
		r.Index, r.Moved = index[r.Key()], true
		return nil
	})
}

// ForgetAdded deletes records without a claim that edits have added and that need no DEL.
func (s *Store) ForgetAdded(keys ...Key) error {
	byFile := map[string][]Key{}
	for _, k := range keys {
		byFile[k.FileUID] = append(byFile[k.FileUID], k)
	}
	for uid, gone := range byFile {
		if err := s.forgetAdded(uid, gone); err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) forgetAdded(uid string, gone []Key) error {
	s.files.mu.Lock()
	records := s.ForClaim(uid)
	left := slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		return r.Key().Added && !r.NeedsDEL() && slices.Contains(gone, r.Key())
	})
	if len(left) > 0 {
		defer s.files.mu.Unlock()
		if len(left) == len(records) {
			return nil
		}
		return s.replace(uid, left, soon)
	}
	s.files.mu.Unlock()
	return s.DeleteClaim(uid) // the caller holds the pod's lock, so nothing is added in between
}
