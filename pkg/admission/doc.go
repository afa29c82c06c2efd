// Package admission decides what happens to an object that is about to be created: whether nadra or
// Multus serves a pod, how the pod is changed, why it is refused; and whether the parameters for
// nadra in claims, templates and classes are valid. It performs no I/O. It reads other objects by
// Lookups.
//
//	pod ── Serves ─┬─ nadra ──► translate.Pod ─► edits and templates, or a refusal
//	               └─ Multus ─► edits: away from nadra's nodes
//
// Admitting an admitted pod changes nothing, even if other webhooks have changed the pod in
// between, except for containers that they have added. A refusal begins with its reason code.
package admission
