package translate

import "github.com/nadra-dev/nadra/internal/yamledit"

// The edits of manifests and pods.
type (
	// Edit is one change of an object. Its JSON form is that of JSON Patch.
	Edit = yamledit.Edit
	// Path leads from an object's root to a value.
	Path = yamledit.Path
)

// The operations of edits.
const (
	Add     = yamledit.Add
	Replace = yamledit.Replace
	Remove  = yamledit.Remove
	Rename  = yamledit.Rename
)

// The mappings that edits add.
type (
	fields = yamledit.Fields
	field  = yamledit.Field
)

// AppendEdits returns the edits that append items to a list, or that make the list if it is empty.
func AppendEdits[T any](list Path, empty bool, items ...T) (edits []Edit) {
	if empty && len(items) > 0 {
		return []Edit{{Op: Add, Path: list, Value: items}}
	}
	for _, item := range items {
		edits = append(edits, Edit{Op: Add, Path: list.Child("-"), Value: item})
	}
	return edits
}

// relative returns the edits of an object with paths that begin at it.
func relative(object Path, edits []Edit) []Edit {
	if len(object) == 0 {
		return edits
	}
	var out []Edit
	for _, e := range edits {
		e.Path = e.Path[len(object):]
		out = append(out, e)
	}
	return out
}
