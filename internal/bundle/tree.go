package bundle

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
)

const (
	lastApplied = "kubectl.kubernetes.io/last-applied-configuration"
	// deepest limits the levels of quoted JSON that are parsed.
	deepest = 16
)

var (
	// Names that Kubernetes uses for other things than credentials: labels, Secrets' names.
	known = []string{
		"key", "topologyKey", "matchLabelKeys", "mismatchLabelKeys", "automountServiceAccountToken",
		"imagePullSecrets", "pullSecrets", "secretName", "secretRef", "secretKeyRef",
	}
	// Users write what is below these names, so the list known does not apply there.
	users = []string{"annotations", "config", "parameters", "data", "stringData", "cni-args", "cniArgs"}
)

// Value redacts a value that can be JSON. The result consists of maps, lists, strings,
// numbers and booleans.
func (r *Redactor) Value(value any) (any, error) {
	text, err := json.Marshal(value)
	if err != nil {
		return nil, fmt.Errorf("writing %T as JSON: %w", value, err)
	}
	tree, err := decode(string(text))
	if err != nil {
		return nil, fmt.Errorf("reading %T as JSON: %w", value, err)
	}
	return r.walk(tree, false, 0), nil
}

// decode parses one JSON value, and rejects text after it. It keeps numbers as written.
func decode(text string) (any, error) {
	d := json.NewDecoder(strings.NewReader(text))
	d.UseNumber()
	var out any
	if err := d.Decode(&out); err != nil {
		return nil, err
	}
	if _, err := d.Token(); err != io.EOF {
		return nil, fmt.Errorf("there is text after the value")
	}
	return out, nil
}

// encode writes JSON, with readable < and >.
func encode(value any, indent string) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return out.Bytes(), nil
}

// walk redacts a value. strict: a user has written it.
func (r *Redactor) walk(value any, strict bool, depth int) any {
	switch v := value.(type) {
	case map[string]any:
		return r.walkMap(v, strict, depth)
	case []any:
		return r.walkList(v, strict, depth)
	case string:
		return r.walkString(v, depth)
	}
	return value
}

// walkMap redacts an object.
func (r *Redactor) walkMap(m map[string]any, strict bool, depth int) map[string]any {
	out := make(map[string]any, len(m))
	for name, value := range m {
		safe := r.Text(name)
		switch {
		case name == lastApplied || name == "managedFields" && !strict:
		case name == "caBundle":
			out[safe] = r.mark(value, caBundle)
		case strengthOf(name) != harmless && (strict || !slices.Contains(known, name)):
			out[safe] = r.mark(value, credential)
		case (name == "value" || name == "values") && namesCredential(m):
			out[safe] = r.mark(value, credential)
		default:
			out[safe] = r.walk(value, strict || slices.Contains(users, name), depth)
		}
	}
	return out
}

// namesCredential reports whether an object is like {"name": "PASSWORD", "value": …}.
func namesCredential(m map[string]any) bool {
	for _, by := range []string{"name", "key"} {
		if name, ok := m[by].(string); ok && strengthOf(name) != harmless {
			return true
		}
	}
	return false
}

// mark redacts a value, unless it is empty, a boolean or redacted already.
func (r *Redactor) mark(value any, kind string) any {
	switch v := value.(type) {
	case nil, bool:
		return v
	case string:
		if v == "" || v == Mark {
			return v
		}
	}
	r.Counts[kind]++
	return Mark
}

// walkList redacts a list. A word after a flag may be a credential.
func (r *Redactor) walkList(list []any, strict bool, depth int) []any {
	out := make([]any, 0, len(list))
	afterFlag := false
	for _, value := range list {
		text, isText := value.(string)
		if afterFlag && isText {
			value = r.mark(text, credential)
			afterFlag = false
		} else {
			afterFlag = isText && strings.HasPrefix(text, "-") && !strings.ContainsAny(text, "= \t\n") && strengthOf(text) != harmless
			value = r.walk(value, strict, depth)
		}
		out = append(out, value)
	}
	return out
}

// walkString redacts a string, which may be JSON.
func (r *Redactor) walkString(text string, depth int) any {
	trimmed := strings.TrimSpace(text)
	if trimmed == "" || !strings.ContainsRune(`{["`, rune(trimmed[0])) || trimmed == Mark {
		return r.Text(text)
	}
	tree, err := decode(text)
	if err != nil {
		return r.Text(text)
	}
	if depth >= deepest {
		return r.mark(text, unreadable)
	}
	out, err := encode(r.walk(tree, true, depth+1), "")
	if err != nil {
		return r.mark(text, unreadable)
	}
	return strings.TrimSuffix(string(out), "\n")
}
