// Package translate turns pods that ask for networks by annotation into pods
// that ask by claim. Manifests go in, manifests and findings come out; it
// performs no I/O.
//
//	text ── Parse ─► document ── objects ─► workload ── planPod ─► Edits, templates, findings
//	  ▲                                                             │
//	  └──────────────────────── splice ◄────────────────────────────┘
//
// The command line (Convert, whole manifests) and the webhook (Pod, one pod)
// run the same rules, so that what the one prints is what the other does.
//
// An edit is an operation of JSON Patch. The webhook answers with the edits
// themselves; for a manifest they are spliced into its text at the positions
// that the YAML parser reports. Writing the parsed nodes anew would change
// indentation, quotes, folded lines and blank lines all over the document; a
// splice leaves every byte that it does not mean to change. Each spliced
// document is parsed again and compared with the edits applied to the parsed
// tree: where they differ, the document stays as it was and a finding says so.
//
// Networks are those of the input, those that network operators would make of
// objects of the input, and those that Options.Lookup finds in a cluster.
//
// Nothing is dropped in silence: each key of an annotation's elements and each
// resource that a network draws from is accounted for exactly once (Account).
package translate
