// Package yamledit changes values in YAML and JSON manifests and leaves every other byte as
// it is: indentation, quotes, comments, folded lines and blank lines.
//
//	file ── Split ─► parts ── Parse ─► Document ── Edit ─► text
//
// An edit is an operation of JSON Patch. Edit splices it into the text at the positions that
// the YAML parser reports, parses the result again and compares it with the same edits applied
// to the parsed tree. It returns an error if the two differ, so that a caller never writes a
// text that means something else.
package yamledit
