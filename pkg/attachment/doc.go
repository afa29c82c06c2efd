// Package attachment turns NetworkAttachmentDefinitions and pod annotations
// into the list of interfaces a pod should have. It performs no I/O.
//
//	NAD ────────── ParseNetwork ────► Network ─┐
//	annotation ─── ParseSelections ─► Selection ┴ NewPlan ─► Plan = []Attachment
//	claim ──────── FromClaim ───────► Selection ┘
//
// It is the only parser of either, for the node driver, the webhook and the
// command line alike. Its nouns are plain values: a stage makes new ones and
// never edits those of another. CNI configuration stays raw JSON, of which only
// the keys that nadra must set are touched, so that numbers, unknown keys and
// their values reach the plugins as their author wrote them.
//
// Numbers such as "behaviour A2-18" refer to the project's inventory of what
// Multus and the NPWG standard do.
package attachment
