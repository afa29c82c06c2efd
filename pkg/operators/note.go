package operators

import "k8s.io/apimachinery/pkg/util/validation/field"

// Note is a fact about an object that its definition does not show.
type Note struct {
	// Path is the path of the field, such as "spec.trunk[0].id".
	Path   string
	Reason Reason
	// Why is the text after "spec.x: ".
	Why string
}

func (n Note) String() string { return n.Path + ": " + n.Why }

// Reason is the code of a note.
type Reason string

// The reasons.
const (
	// Unknown marks a field that the API server drops before an operator sees it.
	Unknown Reason = "Unknown"
	// LeftOut marks a known field whose value has no effect.
	LeftOut Reason = "LeftOut"
	// Assumed marks a value that is not in the object.
	Assumed Reason = "Assumed"
	// Newer marks a field that the operator's last release does not know.
	Newer Reason = "Newer"
	// Altered marks a value that the operator changes.
	Altered Reason = "Altered"
	// Unserved marks a resource that no node can have.
	Unserved Reason = "Unserved"
	// NotMade marks a value with which the operator makes no definition. The rendered definition
	// has the intended value.
	NotMade Reason = "NotMade"
)

// note adds a note.
func (s *spec) note(path *field.Path, reason Reason, why string) {
	s.notes = append(s.notes, Note{Path: path.String(), Reason: reason, Why: why})
}
