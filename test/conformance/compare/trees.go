package compare

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// parsed returns the tree of a JSON text, with numbers as they are written, or a text that
// is not JSON unmodified.
func parsed(text string) any {
	if text == "" {
		return nil
	}
	decoder := json.NewDecoder(strings.NewReader(text))
	decoder.UseNumber()
	var tree any
	if err := decoder.Decode(&tree); err != nil {
		return text
	}
	return tree
}

// trees lists the places in which two trees differ, as far down as both have the same kind
// of node. nil is a missing value.
func trees(path string, multus, nadra any) []Difference {
	switch m := multus.(type) {
	case map[string]any:
		if n, ok := nadra.(map[string]any); ok {
			return maps2(path, m, n)
		}
	case []any:
		if n, ok := nadra.([]any); ok {
			return lists(path, m, n)
		}
	}
	if m, n := rendered(multus), rendered(nadra); m != n {
		return []Difference{{path, m, n}}
	}
	return nil
}

func maps2(path string, multus, nadra map[string]any) []Difference {
	all := maps.Clone(multus)
	maps.Copy(all, nadra)
	var out []Difference
	for _, key := range slices.Sorted(maps.Keys(all)) {
		m, inMultus := multus[key]
		n, inNadra := nadra[key]
		at := path + "." + key
		switch {
		case !inNadra:
			out = append(out, Difference{at, rendered(m), Absent})
		case !inMultus:
			out = append(out, Difference{at, Absent, rendered(n)})
		default:
			out = append(out, trees(at, m, n)...)
		}
	}
	return out
}

func lists(path string, multus, nadra []any) []Difference {
	var out []Difference
	for i := range max(len(multus), len(nadra)) {
		at := fmt.Sprintf("%s[%d]", path, i)
		switch {
		case i >= len(nadra):
			out = append(out, Difference{at, rendered(multus[i]), Absent})
		case i >= len(multus):
			out = append(out, Difference{at, Absent, rendered(nadra[i])})
		default:
			out = append(out, trees(at, multus[i], nadra[i])...)
		}
	}
	return out
}

func rendered(v any) string {
	if v == nil {
		return Absent
	}
	if text, ok := v.(string); ok {
		return text
	}
	var text strings.Builder
	encoder := json.NewEncoder(&text)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(v); err != nil {
		return err.Error()
	}
	return strings.TrimSpace(text.String())
}
