// Package checkpoint remembers, across restarts of the driver and reboots of
// the node, what was prepared and attached here. It is the only writer of that
// state (design D6).
//
// # Layout
//
//	<dir>/claims/<claim UID>.json    one file per claim, format version 1
//	<dir>/claims/.synced-<claim UID> what is on disk of it while that is being synced
//	<dir>/owed/<hash>.json           one file per debt: a DEL that failed for too long
//	<dir>/damaged/<name>.<time>      files that could not be read, kept for a person
//
// A file is written to a temporary name, synchronised and renamed, so that it
// is always either the old or the new one. Changes that may be lost in a power
// cut are renamed first and synchronised in the background (later.go). A damaged
// file costs one claim, not the node: it is put aside and reported, and
// everything else goes on.
//
// # Phases
//
//	(none) ─Put→ Prepared ─MarkAttaching→ Attaching ─MarkAttached→ Attached
//	                ▲                         │ DEL ok                 │ DEL ok
//	                └──────MarkDetached───────┴────────────────────────┘
//	from any phase: DeleteClaim → (none)
//	from Attaching, Attached: HandOver → Prepared, and a debt ─Settle→ (none)
//
// Attaching is on disk before the first plugin has its configuration, and names
// the sandbox it is for; Attached is written once, after the last. Whoever finds
// a record in Attaching or Attached owes a CNI DEL for that sandbox, with the
// configuration that the record carries. A failure is
// not a phase: it is an error to the caller, a condition on the claim, and a
// word to the gate (MarkRefused). A DEL that keeps failing becomes a debt, so
// that neither the pod's deletion nor its next sandbox waits for ever.
package checkpoint
