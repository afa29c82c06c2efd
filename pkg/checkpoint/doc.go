// Package checkpoint keeps, across restarts of the driver and reboots of the node, what
// was prepared and attached on this node. It is the only writer of that state.
//
// # Layout
//
//	<dir>/claims/<UID>.json           one file for each claim, and one, by its own UID, for each
//	                                  pod that has attachments without a claim; format version 1 or 2
//	<dir>/claims/.synced-<UID>        the synced version of that file while a newer one is synced
//	<dir>/pending-dels/<hash>.json    one file for each pending DEL
//	<dir>/damaged/<name>.<time>       files that could not be read, kept for inspection
//
// Every file is replaced whole (internal/atomicfile). A change that may be lost in a
// power cut is synced in the background (claimfiles.go). A damaged file costs one claim:
// it is moved away and reported, and everything else is loaded. A file of a later format version
// stays where it is, and nothing is loaded: after a downgrade the records are not lost.
//
// # Phases
//
//	(none) ─Put→ Prepared ─MarkAttaching→ Attaching ─MarkAttached→ Attached
//	                ▲                         │ DEL ok                 │ DEL ok
//	                └──────MarkDetached───────┴────────────────────────┘
//	from any phase: DeleteClaim → (none)
//	from Attaching, Attached: DeferDEL → Prepared, and a pending DEL ─ResolveDEL→ (none)
//
// Attaching is on disk before the first plugin has its configuration, and names the
// sandbox. Attached is written once, after the last plugin. A record in Attaching or
// Attached needs a CNI DEL for that sandbox, with the configuration in the record. A
// failure is not a phase: it is an error to the caller, a condition of the claim, and a
// refusal for the gate (MarkRefused). A DEL that keeps failing becomes a pending DEL, so
// that neither the pod's deletion nor its next sandbox waits for it.
//
// A record without a claim exists for one sandbox, which it names in every phase. One that Multus
// has made begins as Attached (Adopt), or as a pending DEL if its sandbox is gone (AdoptDELs), and
// may end without a DEL because Multus runs it (Release).
//
// An edit of the pod's annotation adds records without a claim to a sandbox and removes others: a
// removed record of a claim stays until the claim ends, and any other until its sandbox ends or,
// if an edit has added it, until network-status does not list it any more.
//
// Errors of writing have the code StateNotWritten (pkg/api/reason).
package checkpoint
