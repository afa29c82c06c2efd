// Package attachment turns NetworkAttachmentDefinitions, pod annotations and claims into the list
// of interfaces that a pod gets. It performs no I/O.
//
//	NAD ────────── ParseNetwork ────► Network ─┐
//	annotation ─── ParseSelections ─► Selection ┴ NewPlan ─► Plan = []Attachment
//	claim ──────── FromClaim ───────► Selection ┘
//
// It is the only parser of them, for the node driver, the webhook and the command line. Its types
// are plain values: each stage returns new values and does not change those of another stage. CNI
// configuration stays raw JSON. nadra only touches the keys that it must set, so that numbers,
// unknown keys and their values reach the plugins as their author wrote them.
//
// Numbers such as "behaviour A2-18" refer to the project's inventory of what Multus and the NPWG
// standard do.
package attachment
