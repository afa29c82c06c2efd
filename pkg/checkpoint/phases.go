package checkpoint

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/nadra-dev/nadra/pkg/api/reason"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// MarkAttaching records that plugins are about to run for these records in the sandbox:
// each of them needs a DEL from now on. Those in renewed are made with that configuration.
func (s *Store) MarkAttaching(keys []Key, sandbox attachment.Sandbox, renewed map[Key]attachment.Attachment) error {
	return s.update(keys, onDisk, func(r *Record) error {
		if r.NeedsDEL() {
			return fmt.Errorf("%s is %s for sandbox %s: it needs a DEL first", r.Key(), r.Phase, r.Sandbox.ID)
		}
		edit := r.Edit
		if edit.Baseline == nil && !r.Unclaimed() {
			edit.Baseline = sandbox.Networks
		}
		if a, found := renewed[r.Key()]; found {
			r.Attachment = a
		}
		*r = Record{Prepared: r.Prepared, Phase: Attaching, Sandbox: &sandbox, BootID: s.bootID, Edit: edit}
		return nil
	})
}

// MarkDeviceInUse records the sandbox whose containers have devices without a network.
// These records need no DEL.
func (s *Store) MarkDeviceInUse(keys []Key, sandbox attachment.Sandbox) error {
	return s.update(keys, onDisk, func(r *Record) error {
		if !r.DeviceOnly {
			return fmt.Errorf("%s belongs to network %s and is not a device only", r.Key(), r.Attachment.Network)
		}
		*r = Record{Prepared: r.Prepared, Phase: Prepared, Sandbox: &sandbox, BootID: s.bootID, Edit: r.Edit}
		return nil
	})
}

// SetHardware replaces what a record says about its device.
func (s *Store) SetHardware(key Key, now attachment.Hardware) error {
	return s.update([]Key{key}, onDisk, func(r *Record) error {
		r.Hardware = &now
		return nil
	})
}

// MarkDisplaced records default routes that are about to be removed for this record, in
// addition to earlier ones.
func (s *Store) MarkDisplaced(key Key, routes []Route) error {
	return s.update([]Key{key}, onDisk, func(r *Record) error {
		if !r.NeedsDEL() {
			return fmt.Errorf("%s is %s: it cannot displace routes before it is attached", r.Key(), r.Phase)
		}
		displaced := slices.Clone(r.Displaced) // readers have the old slice
		for _, route := range routes {
			if slices.ContainsFunc(displaced, func(d Route) bool { return reflect.DeepEqual(d, route) }) {
				continue
			}
			if len(displaced) == MaxRoutes {
				return reason.Errorf(reason.LimitExceeded, "%s would displace more than %d default routes", r.Key(), MaxRoutes)
			}
			displaced = append(displaced, route)
		}
		r.Displaced = displaced
		return nil
	})
}

// Added is the outcome of one ADD.
type Added struct {
	Key Key
	// Result is the chain's result. DeviceInfo is the plugins' device information, or
	// empty.
	Result, DeviceInfo json.RawMessage
	// StatusStored becomes the record's field: true if containers do not wait for the
	// pod's network-status.
	StatusStored bool
	// Plugins are the files that ran.
	Plugins []string
}

// MarkAttached records the results of ADDs. The change is on disk soon after: if it is
// lost, the records are Attaching, and need a DEL all the same.
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
		r.Phase, r.Result, r.DeviceInfo, r.StatusStored, r.Plugins = Attached, a.Result, a.DeviceInfo, a.StatusStored, a.Plugins
		return nil
	})
}

// MarkStatusStored records that the pod's network-status lists these records as they
// were read from the store: the gate lets containers start. It ignores a record that has
// changed since, and a claim that was forgotten.
func (s *Store) MarkStatusStored(listed []Record) error {
	var keys []Key
	byKey := make(map[Key]Record, len(listed))
	for _, r := range listed {
		if i := slices.IndexFunc(s.ForClaim(r.FileUID()), r.sameAttachment); i >= 0 {
			keys, byKey[r.Key()] = append(keys, r.Key()), r
		}
	}
	err := s.update(keys, soon, func(r *Record) error {
		if byKey[r.Key()].sameAttachment(*r) {
			r.StatusStored = true
		}
		return nil
	})
	if errors.Is(err, ErrNotFound) { // unprepared in the meantime
		return nil
	}
	return err
}

// MarkDetaching records that attachments are about to be deleted in a sandbox that
// lives on. From now on they do not count as attached and need a DEL, even if their
// successful DEL cannot be recorded any more.
func (s *Store) MarkDetaching(keys ...Key) error {
	return s.update(keys, soon, (*Record).beginDetaching)
}

// MarkUnlistedDetaching does the same for attachments whose network-status is not
// stored. If that of one of them has been stored in the meantime, it changes nothing and
// returns ErrStatusStored: the gate may have let containers start.
func (s *Store) MarkUnlistedDetaching(keys ...Key) error {
	return s.update(keys, soon, func(r *Record) error {
		if r.StatusStored {
			return fmt.Errorf("%s: %w", r.Key(), ErrStatusStored)
		}
		return r.beginDetaching()
	})
}

// beginDetaching turns an attached record into one that needs a DEL.
func (r *Record) beginDetaching() error {
	if r.Phase != Attached {
		return fmt.Errorf("%s is %s, not Attached", r.Key(), r.Phase)
	}
	r.Phase, r.Result, r.DeviceInfo, r.StatusStored = Attaching, nil, nil, false
	return nil
}

// MarkDetached records that the DELs of these records have succeeded. The change is on
// disk soon after: if it is lost, the DELs are repeated.
func (s *Store) MarkDetached(keys ...Key) error {
	return s.update(keys, soon, func(r *Record) error {
		refusal, boot := r.Refusal, r.BootID
		if *r = r.prepared(); refusal != "" {
			r.Refusal, r.BootID = refusal, boot
		}
		return nil
	})
}

// MarkRefused makes the gate refuse containers that lack one of these attachments at
// once, with this message, instead of holding them. The next MarkAttaching, and the next
// boot of the node, end the refusal.
func (s *Store) MarkRefused(keys []Key, message string) error {
	return s.update(keys, soon, func(r *Record) error {
		if r.Refusal = message; r.Sandbox == nil {
			r.BootID = s.bootID
		}
		return nil
	})
}
