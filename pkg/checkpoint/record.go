package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// FormatVersion is the version of the files that this package writes. A
// reader refuses any other version, so that a downgrade is an error in words
// and never a half-understood record.
const FormatVersion = 1

// Phase says how far an attachment has come. See the package comment.
type Phase string

// The phases of an attachment.
const (
	Prepared  Phase = "Prepared"
	Attaching Phase = "Attaching"
	Attached  Phase = "Attached"
)

// Record is one attachment of one claim: what it is, how far it has come, and
// all that a CNI DEL needs. Records are values; changing one changes nothing
// in the store.
type Record struct {
	attachment.Prepared

	Phase Phase `json:"phase"`
	// Sandbox is the sandbox that the attachment was made for. It is set in
	// the phases Attaching and Attached, and where the device only was given.
	Sandbox *attachment.Sandbox `json:"sandbox,omitempty"`
	// BootID identifies the life of the node in which Sandbox existed. After a
	// reboot its network namespace is gone, and a DEL gets none.
	BootID string `json:"bootID,omitempty"`
	// Result is the CNI result of ADD as the last plugin of the chain gave it.
	Result json.RawMessage `json:"result,omitempty"`
	// StatusStored says that the pod's network-status lists this attachment, or
	// that nobody waits for it. Until then the gate holds the pod's containers.
	StatusStored bool `json:"statusStored,omitempty"`
	// Displaced are the pod's default routes that this attachment's request
	// for the default route has taken away; they come back with its DEL.
	Displaced []Route `json:"displaced,omitempty"`
	// DeviceInfo is what the plugins told about the attachment's device, in the
	// form of the device information specification (behaviour A5-65).
	DeviceInfo json.RawMessage `json:"deviceInfo,omitempty"`
	// Refusal is why the gate is to refuse containers that lack this attachment
	// at once. Without it the gate holds them: the attachment may still come.
	Refusal string `json:"refusal,omitempty"`
}

// DELOwed reports whether a plugin may have been run for this record, so that
// a CNI DEL must be run before the record may be forgotten.
func (r Record) DELOwed() bool {
	return r.Phase == Attaching || r.Phase == Attached
}

// sameAttachment reports whether the other record is attached as r is, in the
// same sandbox and with the same result, and its status is not stored yet.
func (r Record) sameAttachment(other Record) bool {
	return r.Key() == other.Key() && r.Phase == Attached && other.Phase == Attached && !other.StatusStored &&
		r.Sandbox.ID == other.Sandbox.ID && bytes.Equal(r.Result, other.Result)
}

// Key identifies a record: claim UID, request, pool, device and share ID are
// unique together on the node.
func (r Record) Key() Key {
	return Key{ClaimUID: r.Claim.UID, Request: r.Request, Pool: r.Pool, Device: r.Device, ShareID: r.ShareID}
}

// DELKey identifies what a DEL is owed for: the record in its sandbox.
func (r Record) DELKey() string { return r.Key().String() + " " + r.Sandbox.ID }

// Key identifies one record.
type Key struct {
	ClaimUID, Request, Pool, Device, ShareID string
}

// String names the record in messages.
func (k Key) String() string {
	return fmt.Sprintf("claim %s request %s device %s/%s share %q", k.ClaimUID, k.Request, k.Pool, k.Device, k.ShareID)
}

// claimFile is the content of one file: a claim's records.
type claimFile struct {
	Version int      `json:"version"`
	Records []Record `json:"records"`
}

// encodeClaimFile makes one file's content. Configurations in it are not
// escaped: a person compares them with the NAD during an incident.
func encodeClaimFile(records []Record) ([]byte, error) {
	return encode(claimFile{Version: FormatVersion, Records: records})
}

func encode(file any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(file)
	return out.Bytes(), err
}

// decodeClaimFile reads one file's content. uid is the claim UID that the
// file's name promises.
func decodeClaimFile(data []byte, uid string) ([]Record, error) {
	var f claimFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	if f.Version != FormatVersion {
		return nil, fmt.Errorf("format version %d is not %d: the file was written by another version of nadra", f.Version, FormatVersion)
	}
	if len(f.Records) == 0 {
		return nil, fmt.Errorf("the file has no records")
	}
	seen := map[Key]bool{}
	for i, r := range f.Records {
		if err := r.check(uid); err != nil {
			return nil, fmt.Errorf("record %d: %w", i, err)
		}
		if seen[r.Key()] {
			return nil, fmt.Errorf("record %d: %s occurs twice", i, r.Key())
		}
		seen[r.Key()] = true
	}
	return f.Records, nil
}

// check holds what every reader of a record relies on.
func (r Record) check(uid string) error {
	switch r.Phase {
	case Prepared, Attaching, Attached:
	default:
		return fmt.Errorf("unknown phase %q", r.Phase)
	}
	if r.Claim.UID != uid {
		return fmt.Errorf("claim UID %q is not the file's %q", r.Claim.UID, uid)
	}
	if r.DELOwed() && (r.Sandbox == nil || r.Sandbox.ID == "") {
		return fmt.Errorf("phase %s without a sandbox", r.Phase)
	}
	return nil
}
