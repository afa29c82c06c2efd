package yamledit

import (
	"encoding/json"
	"strconv"
	"strings"
)

// Op is an operation of JSON Patch (RFC 6902).
type Op string

// The supported operations. They address values of mappings and the ends of lists.
const (
	Add     Op = "add"
	Replace Op = "replace"
	Remove  Op = "remove"
	// Rename gives an entry of a mapping the key in Value. JSON Patch calls it move.
	Rename Op = "move"
)

// Path leads from an object's root to a value: keys of mappings and, in decimal, indexes of
// lists; "-" is the end of a list.
type Path []string

// Child returns the path with more steps. It shares no memory with p.
func (p Path) Child(steps ...string) Path {
	return append(append(make(Path, 0, len(p)+len(steps)), p...), steps...)
}

// Index returns the path with the index of a list.
func (p Path) Index(i int) Path { return p.Child(strconv.Itoa(i)) }

// String returns the path as people write it: a.b[0][c.d/e].
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

// pointer returns the path as a JSON Pointer (RFC 6901).
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
	// Value is a string, a bool, a list ([]any) or Fields. MarshalJSON takes any value.
	Value any
}

// MarshalJSON encodes the edit as an operation of JSON Patch.
func (e Edit) MarshalJSON() ([]byte, error) {
	if key, isKey := e.Value.(string); e.Op == Rename && isKey {
		return json.Marshal(struct {
			Op   Op     `json:"op"`
			From string `json:"from"`
			Path string `json:"path"`
		}{e.Op, e.Path.pointer(), e.Path[:len(e.Path)-1].Child(key).pointer()})
	}
	return json.Marshal(struct {
		Op    Op     `json:"op"`
		Path  string `json:"path"`
		Value any    `json:"value,omitempty"`
	}{e.Op, e.Path.pointer(), e.Value})
}

// Fields is a mapping with an order.
type Fields []Field

// Field is an entry of a mapping.
type Field struct {
	Key   string
	Value any
}

// MarshalJSON encodes the mapping in its order.
func (fs Fields) MarshalJSON() ([]byte, error) {
	return []byte(flow(fs, true)), nil
}
