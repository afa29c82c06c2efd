package operators

import "k8s.io/apimachinery/pkg/util/validation/field"

// Note is something about an object that its definition does not show.
type Note struct {
	// Path is the field's, e.g. "spec.trunk[0].id".
	Path   string
	Reason Reason
	// Why is a clause that continues "spec.x: ".
	Why string
}

func (n Note) String() string { return n.Path + ": " + n.Why }

// Reason is what kind of note it is, for programs.
type Reason string

// The reasons there are.
const (
	// Unknown fields are dropped by the API server before an operator sees them.
	Unknown Reason = "Unknown"
	// LeftOut fields are known, and have no effect with the value they have.
	LeftOut Reason = "LeftOut"
	// Assumed values are not in the object.
	Assumed Reason = "Assumed"
	// Newer fields are those of an operator later than its last release.
	Newer Reason = "Newer"
	// Altered values reach the plugin otherwise than the object has them.
	Altered Reason = "Altered"
	// Unserved resources cannot exist on a node.
	Unserved Reason = "Unserved"
	// NotMade says that the operator fails here. The definition is what was
	// meant.
	NotMade Reason = "NotMade"
)

func (s *spec) note(path *field.Path, reason Reason, why string) {
	s.notes = append(s.notes, Note{Path: path.String(), Reason: reason, Why: why})
}
