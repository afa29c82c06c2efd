package checkpoint

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"

	"github.com/nadra-dev/nadra/pkg/attachment"
)

// formatVersion is the latest version of the files that this package reads. A reader rejects
// a later version, so that a downgrade is an error and never a record that is half
// understood. Version 2 has records with the device of another driver (Attachment.On), which drivers that
// read version 1 would drop. Files without such records have version 1, which those drivers read.
const formatVersion = 2

// versionOf returns the version of a file with these records.
func versionOf(records ...Record) int {
	if slices.ContainsFunc(records, func(r Record) bool { return r.Attachment.On != nil }) {
		return 2
	}
	return 1
}

// checkVersion refuses a version that this package does not read.
func checkVersion(version int) error {
	if version < 1 || version > formatVersion {
		return fmt.Errorf("format version %d is not between 1 and %d: the file was written by another version of nadra", version, formatVersion)
	}
	return nil
}

// Phase is the progress of an attachment. See the package comment.
type Phase string

// The phases of an attachment.
const (
	Prepared  Phase = "Prepared"
	Attaching Phase = "Attaching"
	Attached  Phase = "Attached"
)

// Record is one attachment of one claim, or of a pod without a claim: what was prepared, its
// phase, and everything that a CNI DEL needs. Changing a Record changes nothing in the store.
type Record struct {
	attachment.Prepared

	Phase Phase `json:"phase"`
	// Sandbox is the sandbox that the attachment is made in. It is set in the phases
	// Attaching and Attached, for devices without a network that are in use, and always
	// for an attachment without a claim, which exists for its sandbox only.
	Sandbox *attachment.Sandbox `json:"sandbox,omitempty"`
	// BootID is the boot ID of the node when Sandbox was created, or without one, when Refusal was
	// written. After a reboot its network namespace is gone, and a DEL gets none.
	BootID string `json:"bootID,omitempty"`
	// Result is the CNI result of ADD as the last plugin of the chain returned it.
	Result json.RawMessage `json:"result,omitempty"`
	// StatusStored is true if the pod's network-status lists this attachment, or if
	// containers do not wait for that. Until then the gate holds the pod's containers.
	StatusStored bool `json:"statusStored,omitempty"`
	// Displaced are the default routes of the pod that were removed for this
	// attachment's default route. Its DEL restores them.
	Displaced []Route `json:"displaced,omitempty"`
	// DeviceInfo is the plugins' device information, in the form of the device
	// information specification (behaviour A5-65).
	DeviceInfo json.RawMessage `json:"deviceInfo,omitempty"`
	// Plugins are the files that ADD has run, and those of IPAM plugins, as PATH@sha256:DIGEST.
	Plugins []string `json:"plugins,omitempty"`
	// Adopted is set if Multus made the attachment, or if nadra made it and hands it over to
	// Multus. Multus may have deleted it since, if the node was given back.
	Adopted bool `json:"adopted,omitempty"`
	// Refusal makes the gate refuse containers that lack this attachment at once, with
	// this message. If it is empty, or of an earlier boot, the gate holds them.
	Refusal string `json:"refusal,omitempty"`
	Edit
}

// Edit is what edits of the pod's networks annotation have made of a record. It stays in all
// phases.
type Edit struct {
	// Removed is true while the annotation does not name the network any more: nothing
	// attaches it, and no container waits for it.
	Removed bool `json:"removed,omitempty"`
	// LiveIn is the ID of the sandbox to which an edit has added the network while its
	// containers could run already, so that they do not wait for it. In another sandbox they do.
	LiveIn string `json:"liveIn,omitempty"`
	// Moved is true if an edit has changed the record's position in the pod's plan.
	Moved bool `json:"moved,omitempty"`
	// Baseline is the annotation that the pod had when its first sandbox with this claim was
	// attached, or when Multus' attachment was adopted. Edits are changes of it. It is nil if it
	// is unknown, and for an attachment by annotation.
	Baseline *string `json:"baseline,omitempty"`
}

// Live reports whether the record was added to this sandbox by an edit, so that no container
// of the sandbox waits for it.
func (r Record) Live(sandboxID string) bool { return r.LiveIn != "" && r.LiveIn == sandboxID }

// Awaited reports whether containers of a sandbox wait for the record's attachment.
func (r Record) Awaited(sandboxID string) bool {
	return !r.DeviceOnly && !r.Removed && !r.Live(sandboxID)
}

// ByAnnotation reports whether nadra attached the network as the pod's annotation asked for it,
// without a claim. A claim, and Multus, may have had other parameters.
func (r Record) ByAnnotation() bool { return r.Unclaimed() && !r.Adopted }

// NeedsDEL reports whether a plugin may have run for this record, so that a CNI DEL must
// succeed before the record may be forgotten.
func (r Record) NeedsDEL() bool {
	return r.Phase == Attaching || r.Phase == Attached
}

// sameAttachment reports whether the other record is attached in the same sandbox with
// the same result, and its status is not stored yet.
func (r Record) sameAttachment(other Record) bool {
	return r.Key() == other.Key() && r.Phase == Attached && other.Phase == Attached && !other.StatusStored &&
		r.Sandbox.ID == other.Sandbox.ID && bytes.Equal(r.Result, other.Result)
}

// Refused reports whether the gate refuses containers that lack the attachment, in this boot of the node.
func (r Record) Refused(bootID string) bool {
	return r.Refusal != "" && (r.BootID == "" || r.BootID == bootID)
}

// Key returns the record's key, which is unique on the node.
func (r Record) Key() Key {
	return Key{FileUID: r.FileUID(), Request: r.Request, Pool: r.Pool, Device: r.Device, ShareID: r.ShareID, Added: r.Unclaimed() && r.LiveIn != ""}
}

// FileUID returns the UID that names the record's file: that of its claim, or of its pod for
// an attachment without a claim.
func (r Record) FileUID() string { return fileUID(r.Prepared) }

func fileUID(p attachment.Prepared) string {
	if p.Unclaimed() {
		return p.Pod.UID
	}
	return p.Claim.UID
}

// prepared returns the record before anything was attached. One without a claim keeps its
// sandbox.
func (r Record) prepared() Record {
	out := Record{Prepared: r.Prepared, Phase: Prepared, Edit: r.Edit}
	if r.Unclaimed() {
		out.Sandbox, out.BootID = r.Sandbox, r.BootID
	}
	return out
}

// DELKey returns a key for the record's DEL: the record in its sandbox.
func (r Record) DELKey() string { return r.Key().String() + " " + r.Sandbox.ID }

// Key identifies one record. FileUID is the UID of its claim, or of its pod for an attachment
// without a claim, whose Request is the name of its interface. Added is true for an attachment
// without a claim that an edit has added to a running sandbox: the sandbox may have had another
// one of that interface.
type Key struct {
	FileUID, Request, Pool, Device, ShareID string
	Added                                   bool
}

// String returns the key for messages.
func (k Key) String() string {
	text := fmt.Sprintf("%s request %s device %s/%s share %q", k.FileUID, k.Request, k.Pool, k.Device, k.ShareID)
	if k.Added {
		text += " added"
	}
	return text
}

// claimFile is the content of a claim's file.
type claimFile struct {
	Version int      `json:"version"`
	Records []Record `json:"records"`
}

// encodeClaimFile encodes a claim's file. It does not escape configurations, because
// people compare them with the NAD during an incident.
func encodeClaimFile(records []Record) ([]byte, error) {
	return encode(claimFile{Version: versionOf(records...), Records: records})
}

func encode(file any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	err := e.Encode(file)
	return out.Bytes(), err
}

// decodeClaimFile decodes a claim's file and rejects one whose records are incomplete,
// duplicate or of another claim than uid, which the file's name has.
func decodeClaimFile(data []byte, uid string) ([]Record, error) {
	var f claimFile
	if err := json.Unmarshal(data, &f); err != nil {
		return nil, fmt.Errorf("decoding JSON: %w", err)
	}
	if err := checkVersion(f.Version); err != nil {
		return nil, err
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

// check rejects a record without what every reader relies on.
func (r Record) check(uid string) error {
	switch r.Phase {
	case Prepared, Attaching, Attached:
	default:
		return fmt.Errorf("unknown phase %q", r.Phase)
	}
	if r.FileUID() != uid {
		return fmt.Errorf("UID %q of its claim, or of its pod without a claim, is not the file's %q", r.FileUID(), uid)
	}
	if (r.NeedsDEL() || r.Unclaimed()) && (r.Sandbox == nil || r.Sandbox.ID == "") {
		return fmt.Errorf("phase %s without a sandbox", r.Phase)
	}
	return nil
}
