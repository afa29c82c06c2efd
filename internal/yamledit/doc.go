// Package yamledit changes values in YAML and JSON manifests and leaves every other byte as
// it is: indentation, quotes, comments, folded lines and blank lines.
//
//	file ── Split ─► parts ── Parse ─► Document ── Edit ─► text
//
// An edit is an operation of JSON Patch. Edit splices it into the text at the positions that
// the YAML parser reports, parses the result again and compares it with the same edits applied
// to the parsed tree. It returns an error if the two differ, so that a caller never writes a
// text that means something else.
//
// The files:
//
//	document.go  documents of a file: splitting, parsing, positions of nodes
//	edit.go      edits, paths and mappings with an order
//	json.go      parses JSON into the nodes that the YAML parser would return
//	layout.go    reads a document's indentation, line ends and quotes
//	node.go      looks up keys, children and aliases of nodes
//	render.go    writes values as text
//	source.go    converts lines and columns to offsets and back
//	span.go      finds where a node ends in the text
//	splice.go    splices edits into the text
//	spliceflow.go  the same for collections in brackets
//	tree.go      applies edits to a tree and compares it with nodes
//	within.go    finds the position of a character of a scalar
package yamledit
