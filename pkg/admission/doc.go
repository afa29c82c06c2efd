// Package admission decides what becomes of an object that is about to be
// created: who serves a pod, what is changed in it, why it is refused; and
// whether what claims, templates and classes say to nadra is valid. It performs
// no I/O; what it must know of other objects it asks for by Lookups.
//
//	pod ── Serves ─┬─ nadra ──► translate.Pod ─► edits and templates, or a refusal
//	               └─ Multus ─► edits: away from nadra's nodes
//
// Admitting an admitted pod changes nothing, also when other webhooks have
// changed it in between; a container that they have added is all that is
// changed then.
package admission
