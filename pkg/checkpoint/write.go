package checkpoint

import (
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/internal/failpoint"
)

// durability says when a change has to be on disk.
type durability bool

const (
	onDisk durability = false // before anybody goes on
	soon   durability = true  // see writeLater
)

// update changes records and writes each claim that is concerned once.
func (s *Store) update(keys []Key, when durability, change func(*Record) error) error {
	s.writing.Lock()
	defer s.writing.Unlock()
	changed := map[string][]Record{}
	for _, k := range keys {
		records, ok := changed[k.ClaimUID]
		if !ok {
			records = s.ForClaim(k.ClaimUID)
			changed[k.ClaimUID] = records
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

// replace writes the records of one claim and then lets readers see them. The
// caller holds writing.
func (s *Store) replace(uid string, records []Record, when durability) error {
	data, err := encodeClaimFile(records)
	if err != nil {
		return fmt.Errorf("encoding the records of claim %s: %w", uid, err)
	}
	failpoint.Reach(failpoint.BeforeRecordWrite)
	if err := s.write(uid, data, when); err != nil {
		return fmt.Errorf("writing the records of claim %s: %w", uid, err)
	}
	failpoint.Reach(failpoint.AfterRecordWrite)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.set(uid, records)
	return nil
}

// write writes a claim's file. The caller holds writing.
func (s *Store) write(uid string, data []byte, when durability) error {
	s.writes.Add(1)
	if when == soon {
		return s.writeLater(uid, data)
	}
	s.waited.Add(1)
	if err := replaceFile(s.path(uid), data); err != nil {
		return err
	}
	s.forgetKept(uid)
	return nil
}

// set has readers see the records of a claim, or none. The caller holds mu.
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
