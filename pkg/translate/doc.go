// Package translate converts pods that request networks by annotation to pods that request
// them by claim. It takes manifests and returns manifests and findings, and performs no I/O.
//
//	text ── parse ─► document ── objects ─► workload ── planPod ─► edits, templates, findings
//	  ▲                                                             │
//	  └─────────────────── yamledit.Edit ◄──────────────────────────┘
//
// The command line (Convert, whole manifests) and the webhook (Pod, one pod) apply the same
// rules, so the webhook does what the command line prints.
//
// An edit is an operation of JSON Patch. The webhook returns the edits themselves.
// internal/yamledit applies them to the text of a manifest and leaves every other byte as it is.
// A document that it cannot edit stays unchanged, with a finding.
//
// Networks are those of the input, and those that Options.Lookup finds in a cluster.
package translate
