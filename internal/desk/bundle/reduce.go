package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/document"
)

// reducer keeps what the rules allow, and counts what it leaves out.
type reducer struct {
	allowed *rule
	known   *regexp.Regexp
	counts  map[string]int
}

// newReducer returns a reducer that has left out nothing.
func newReducer() *reducer {
	allowed, known := load()
	return &reducer{allowed: allowed, known: known, counts: map[string]int{}}
}

// value reduces a value of a kind that can be JSON. It refuses kinds that fields.yaml does not list.
func (r *reducer) value(kind string, value any) (any, error) {
	of := r.allowed.of(kind)
	if of == nil {
		return nil, fmt.Errorf("reducing a %s: fields.yaml does not list the kind", kind)
	}
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("writing %s as JSON: %w", kind, err)
	}
	var tree any
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	if err := d.Decode(&tree); err != nil {
		return nil, fmt.Errorf("reading %s as JSON: %w", kind, err)
	}
	return r.walk(tree, of, of), nil
}

// walk reduces a value. around is the rule of the object around it.
func (r *reducer) walk(value any, of, around *rule) any {
	switch v := value.(type) {
	case nil:
		return nil
	case map[string]any:
		return r.object(v, of, around)
	case []any:
		if of.shape == "names" {
			of = &rule{shape: "same"}
		}
		out := make([]any, 0, len(v))
		for _, item := range v {
			out = append(out, r.walk(item, of, around))
		}
		return out
	case string:
		return r.text(v, of)
	}
	if of.fields == nil && of.shape != "size" && of.shape != "text" {
		return value
	}
	return r.leaveOut(odd, value)
}

// object reduces an object. The names of unlisted fields are left out, too.
func (r *reducer) object(o map[string]any, of, around *rule) any {
	switch of.shape {
	case "same":
		of = around
	case "names":
		of = &rule{fields: map[string]*rule{"*": {fields: around.fields}}}
	}
	if of.fields == nil {
		return r.leaveOut(odd, o)
	}
	out := map[string]any{}
	var left []string
	for name, value := range o {
		if inner := of.of(name); inner != nil {
			out[name] = r.walk(value, inner, of)
		} else if name != "managedFields" {
			r.counts[unlisted]++
			left = append(left, size(value))
		}
	}
	if left != nil && of.fields["*"] == nil { // the values of "*" have one type, which a text may not have
		slices.Sort(left)
		out[Mark+"]"] = strings.Join(left, ", ")
	}
	return out
}

// text reduces a string.
func (r *reducer) text(text string, of *rule) string {
	if of.fields != nil {
		return r.document(text, of)
	}
	switch of.shape {
	case "text":
		return r.message(text)
	case "flags":
		return r.flag(text)
	}
	if shape := shapes[of.shape]; shape != nil && shape.MatchString(text) {
		return text
	}
	return r.leaveOut(odd, text)
}

// document reduces a string that may be JSON or YAML.
func (r *reducer) document(text string, of *rule) string {
	var tree any
	err := yaml.Unmarshal([]byte(text), &tree)
	switch tree.(type) {
	case map[string]any, []any:
		if inner := of.fields[ifJSON]; err == nil && inner != nil {
			if out, err := document.JSON(r.walk(tree, inner, inner), ""); err == nil {
				return strings.TrimSuffix(string(out), "\n")
			}
		}
	default:
		if inner := of.fields[otherwise]; inner != nil {
			return r.text(text, inner)
		}
	}
	return r.leaveOut(odd, text)
}

// flag reduces an argument of nadra's own programs.
func (r *reducer) flag(text string) string {
	dashed, value, _ := strings.Cut(text, "=")
	of := r.allowed.fields["flags"].of(strings.TrimLeft(dashed, "-"))
	if of == nil || !strings.HasPrefix(dashed, "-") {
		return r.leaveOut(unlisted, text)
	}
	if !strings.Contains(text, "=") {
		return text
	}
	return dashed + "=" + r.text(value, of)
}

// message keeps the known phrases of a text.
func (r *reducer) message(text string) string {
	var found []string
	for _, phrase := range r.known.FindAllString(text, -1) {
		if phrase == text {
			return text
		}
		if !slices.Contains(found, phrase) {
			found = append(found, phrase)
		}
	}
	if text == "" || found == nil {
		return r.leaveOut(prose, text)
	}
	r.counts[prose]++
	return Mark + ": " + size(text) + " with: " + strings.Join(found, ", ") + "]"
}

// leaveOut returns what replaces a value, and counts it. An empty text stays.
func (r *reducer) leaveOut(kind string, value any) string {
	if value == "" {
		return ""
	}
	r.counts[kind]++
	return Mark + ": " + size(value) + "]"
}

// size describes a value by its type and length.
func size(value any) string {
	switch v := value.(type) {
	case string:
		return fmt.Sprintf("string of %d bytes", len(v))
	case []any:
		return fmt.Sprintf("list of %d", len(v))
	case map[string]any:
		return fmt.Sprintf("object of %d fields", len(v))
	case bool:
		return "boolean"
	case nil:
		return "null"
	}
	return "number"
}
