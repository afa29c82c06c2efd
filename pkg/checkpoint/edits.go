package checkpoint

import (
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Edits changes the records of a Store as edits of pods' annotations ask.
type Edits struct{ store *Store }

// NewEdits returns the Edits of a Store.
func NewEdits(s *Store) Edits { return Edits{s} }

// AddLive adds an attachment without a claim to a sandbox whose containers may run already.
// It replaces a removed one of the same interface that needs no DEL. The pod's file is on disk
// when MarkAttaching has returned, which is before any plugin runs.
func (e Edits) AddLive(prepared attachment.Prepared, sandbox attachment.Sandbox) (Record, error) {
	r := Record{Prepared: prepared, Phase: Prepared, Sandbox: &sandbox, BootID: e.store.bootID, Edit: Edit{LiveIn: sandbox.ID}}
	uid := r.FileUID()
	if !r.Unclaimed() || !fileName.MatchString(uid) {
		return r, fmt.Errorf("%s cannot be added to sandbox %s: it has a claim, or a UID that cannot be a file name", r.Key(), sandbox.ID)
	}
	e.store.files.mu.Lock()
	defer e.store.files.mu.Unlock()
	records := e.store.ForClaim(uid)
	when := soon
	if len(records) == 0 {
		when = onDisk
	}
	if i := slices.IndexFunc(records, func(o Record) bool { return o.Key() == r.Key() }); i >= 0 {
		if o := records[i]; !o.Removed || o.NeedsDEL() {
			return r, fmt.Errorf("%s is there already, phase %s", r.Key(), o.Phase)
		}
		records = slices.Delete(records, i, i+1)
	}
	return r, e.store.replace(uid, append(records, r), when)
}

// MarkRemoved records that the pod's annotation does not name these networks any more. What
// is attached needs a DEL from now on, even if its successful DEL cannot be recorded any more.
func (e Edits) MarkRemoved(keys ...Key) error {
	return e.store.update(keys, soon, func(r *Record) error {
		r.Removed, r.Refusal = true, ""
		if r.Phase == Attached {
			return r.beginDetaching()
		}
		return nil
	})
}

// MarkWanted records that the pod's annotation names the networks of claims again. sandboxID is
// the sandbox to which they are added while its containers may run, or "" for a new sandbox,
// whose containers wait for them.
func (e Edits) MarkWanted(sandboxID string, keys ...Key) error {
	return e.store.update(keys, soon, func(r *Record) error {
		r.Removed, r.LiveIn = false, sandboxID
		return nil
	})
}

// Reorder sets the positions of records in their pod's plan.
func (e Edits) Reorder(index map[Key]int) error {
	keys := make([]Key, 0, len(index))
	for k := range index {
		keys = append(keys, k)
	}
	return e.store.update(keys, soon, func(r *Record) error {
		r.Index, r.Moved = index[r.Key()], true
		return nil
	})
}

// ForgetAdded deletes records without a claim that edits have added and that need no DEL.
func (e Edits) ForgetAdded(keys ...Key) error {
	byFile := map[string][]Key{}
	for _, k := range keys {
		byFile[k.FileUID] = append(byFile[k.FileUID], k)
	}
	for uid, gone := range byFile {
		if err := e.forgetAdded(uid, gone); err != nil {
			return err
		}
	}
	return nil
}

func (e Edits) forgetAdded(uid string, gone []Key) error {
	e.store.files.mu.Lock()
	records := e.store.ForClaim(uid)
	left := slices.DeleteFunc(slices.Clone(records), func(r Record) bool {
		return r.Key().Added && !r.NeedsDEL() && slices.Contains(gone, r.Key())
	})
	if len(left) > 0 {
		defer e.store.files.mu.Unlock()
		if len(left) == len(records) {
			return nil
		}
		return e.store.replace(uid, left, soon)
	}
	e.store.files.mu.Unlock()
	return e.store.DeleteClaim(uid, uid) // the caller holds the pod's lock, so nothing is added in between
}
