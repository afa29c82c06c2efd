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
//
// The files:
//
//	pod.go       Pod: the decision about a pod
//	owner.go     Serves: whether nadra or Multus serves a pod
//	annotation.go  the annotation that names a pod's networks, and its two names
//	defaults.go  default networks: whether a pod gets any, and how
//	byhand.go    pods with handwritten claims
//	copied.go    pods with claims of a conversion and without the annotation, such as copies
//	claims.go    claims of pods, and requests of claims
//	affinity.go  keeps pods of Multus off nadra's nodes
//	unscheduled.go  pods that the scheduler ignores
//	unserved.go  pods whose resource pool nothing serves
//	podinfo.go   removes a duplicate volume with the pod's labels and annotations
//	refusal.go   texts of refusals and warnings
//	position.go  positions in the networks annotation
//	validate.go  validates claims, templates and classes
//	edge.go      what the webhook needs of pkg/translate
package admission
