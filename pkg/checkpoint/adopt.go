package checkpoint

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// Adopted is an attachment that Multus has made.
type Adopted struct {
	Prepared attachment.Prepared
	// Baseline is the pod's annotation of networks, or nil if it is unknown.
	Baseline *string
	// Result is the result of its ADD. DeviceInfo is the plugins' device information, or
	// empty.
	Result, DeviceInfo json.RawMessage
}

// Adoptions adds to a Store what Multus has made, and removes what Multus is to delete.
type Adoptions struct{ store *Store }

// NewAdoptions returns the Adoptions of a store.
func NewAdoptions(s *Store) Adoptions { return Adoptions{s} }

// records returns records of attachments of a sandbox that Multus has made.
func (o Adoptions) records(adopted []Adopted, sandbox attachment.Sandbox) []Record {
	out := make([]Record, len(adopted))
	for i, a := range adopted {
		out[i] = Record{
			Prepared: a.Prepared, Phase: Attached, Sandbox: &sandbox, BootID: o.store.bootID,
			Result: a.Result, DeviceInfo: a.DeviceInfo, StatusStored: true, Adopted: true, Edit: Edit{Baseline: a.Baseline},
		}
	}
	return out
}

// Adopt adds the attachments of a sandbox that Multus has made, as Attached and without a claim. It
// refuses a pod that has such records already.
func (o Adoptions) Adopt(adopted []Adopted, sandbox attachment.Sandbox) error {
	if len(adopted) == 0 {
		return nil
	}
	s, uid := o.store, sandbox.Pod.UID
	if !fileName.MatchString(uid) {
		return fmt.Errorf("UID %q cannot be a file name", uid)
	}
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	if len(s.ForClaim(uid)) > 0 {
		return fmt.Errorf("pod %s has attachments without a claim in another sandbox", sandbox.Pod)
	}
	return s.replace(uid, o.records(adopted, sandbox), onDisk)
}

// AdoptDELs makes pending DELs of the attachments of a sandbox that Multus has made, and that is
// gone, and returns their records. It leaves out those that are pending already.
func (o Adoptions) AdoptDELs(adopted []Adopted, sandbox attachment.Sandbox, cause string) ([]Record, error) {
	s := o.store
	var out []Record
	for _, r := range o.records(adopted, sandbox) {
		if slices.ContainsFunc(s.PendingDELs(), func(d PendingDEL) bool { return d.Record.DELKey() == r.DELKey() }) {
			continue
		}
		if err := s.pending.add(PendingDEL{Record: r, Since: time.Now().UTC(), Cause: cause}); err != nil {
			return out, err
		}
		out = append(out, r)
	}
	return out, nil
}

// MarkAdopted records that nadra has handed over its own attachments without a claim: from now on
// they are as those that Multus has made. baseline is the pod's annotation of networks, or nil if it
// is unknown.
func (o Adoptions) MarkAdopted(keys []Key, baseline *string) error {
	return o.store.update(keys, onDisk, func(r *Record) error {
		if !r.Unclaimed() || r.Phase != Attached {
			return fmt.Errorf("%s cannot be handed over: it is %s, or has a claim", r.Key(), r.Phase)
		}
		r.Adopted, r.Baseline = true, baseline
		return nil
	})
}

// Release forgets attachments that Multus has made, because it deletes them itself. It keeps others
// of the pod.
func (o Adoptions) Release(podUID, sandboxID string) error {
	s := o.store
	s.files.mu.Lock()
	defer s.files.mu.Unlock()
	before := s.ForClaim(podUID)
	left := slices.DeleteFunc(slices.Clone(before), func(r Record) bool { return r.Adopted && InSandbox(sandboxID)(r) })
	switch len(left) {
	case len(before):
		return nil
	case 0:
		return s.forget(podUID)
	}
	return s.replace(podUID, left, onDisk)
}
