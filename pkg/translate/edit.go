package translate

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Op is an operation of JSON Patch (RFC 6902).
type Op string

// The operations in use. Of their variants only those are needed that address
// the values of mappings and the ends of lists.
const (
	Add     Op = "add"
	Replace Op = "replace"
	Remove  Op = "remove"
)

// Path leads from an object's root to a value: keys of mappings and, in
// decimal, indexes of lists; "-" is the end of a list.
type Path []string

// Child is the path with more steps. It shares nothing with p.
func (p Path) Child(steps ...string) Path {
	return append(append(make(Path, 0, len(p)+len(steps)), p...), steps...)
}

// Index is the path with the index of a list.
func (p Path) Index(i int) Path { return p.Child(strconv.Itoa(i)) }

// String is the path as people write it: a.b[0]["c.d/e"].
func (p Path) String() string {
	var b strings.Builder
	for _, step := range p {
		switch _, err := strconv.Atoi(step); {
		case err == nil || step == "-":
			b.WriteString("[" + step + "]")
		case strings.ContainsAny(step, "./ "):
			b.WriteString("[" + step + "]")
		default:
			if b.Len() > 0 {
				b.WriteByte('.')
			}
			b.WriteString(step)
		}
	}
	return b.String()
}

// pointer is the path as JSON Pointer (RFC 6901).
func (p Path) pointer() string {
	escape := strings.NewReplacer("~", "~0", "/", "~1")
	var b strings.Builder
	for _, step := range p {
		b.WriteString("/" + escape.Replace(step))
	}
	return b.String()
}

// Edit is one change of an object. Its JSON form is that of JSON Patch.
type Edit struct {
	Op   Op
	Path Path
	// Value is a string, a bool, a list ([]any) or fields.
	Value any
}

// MarshalJSON encodes the operation.
func (e Edit) MarshalJSON() ([]byte, error) {
	return json.Marshal(struct {
		Op    Op     `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}{e.Op, e.Path.pointer(), e.Value})
}

// relative are edits of an object as they are within it.
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

// fields is a mapping with an order.
type fields []field

type field struct {
	key   string
	value any
}

// MarshalJSON encodes the mapping in its order.
func (fs fields) MarshalJSON() ([]byte, error) {
	return []byte(flow(fs, true)), nil
}
