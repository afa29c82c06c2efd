package yamledit

import (
	"fmt"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"
)

// A tree is what an edited document must parse as: nodes of the document before the edits, and
// map[string]any, []any and strings (a tag and a text) at the edited places.

// patch applies an edit to a tree.
func patch(root *any, e Edit) error {
	return patchAt(root, e.Path, e)
}

func patchAt(at *any, path Path, e Edit) error {
	if len(path) == 0 {
		*at = treeOf(e.Value)
		return nil
	}
	unfold(at)
	switch v := (*at).(type) {
	case map[string]any:
		return patchMapping(v, path, e)
	case []any:
		if path[0] == "-" && len(path) == 1 && e.Op == Add {
			*at = append(v, treeOf(e.Value))
			return nil
		}
		if i, err := strconv.Atoi(path[0]); err == nil && i >= 0 && i < len(v) {
			return patchAt(&v[i], path[1:], e)
		}
	}
	return fmt.Errorf("editing %s: no such path", e.Path)
}

func patchMapping(m map[string]any, path Path, e Edit) error {
	child, found := m[path[0]]
	switch {
	case !found && (len(path) > 1 || e.Op != Add):
		return fmt.Errorf("editing %s: no such path", e.Path)
	case len(path) == 1 && e.Op == Remove:
		delete(m, path[0])
		return nil
	case len(path) == 1 && e.Op == Rename:
		return rename(m, e)
	}
	if s, isString := e.Value.(string); len(path) == 1 && isString && isNumber(s) {
		// A number keeps its quotes, or stays without.
		if old, isNode := child.(*yaml.Node); isNode && old.Tag == "!!int" {
			m[path[0]] = "!!int " + s
			return nil
		}
	}
	if err := patchAt(&child, path[1:], e); err != nil {
		return err
	}
	m[path[0]] = child
	return nil
}

func rename(m map[string]any, e Edit) error {
	old, key := e.Path[len(e.Path)-1], fmt.Sprint(e.Value)
	if _, taken := m[key]; taken {
		return fmt.Errorf("editing %s: there is a key %s already", e.Path, key)
	}
	m[key] = m[old]
	delete(m, old)
	return nil
}

// unfold replaces a node by a map or a slice of its children, so that they can be changed.
func unfold(at *any) {
	n, isNode := (*at).(*yaml.Node)
	switch {
	case !isNode:
	case n.Kind == yaml.MappingNode:
		m := make(map[string]any, len(n.Content)/2)
		for i := 0; i+1 < len(n.Content); i += 2 {
			m[keyText(n.Content[i])] = n.Content[i+1]
		}
		*at = m
	case n.Kind == yaml.SequenceNode:
		list := make([]any, 0, len(n.Content))
		for _, item := range n.Content {
			list = append(list, item)
		}
		*at = list
	}
}

// keyText returns the text of a key. It joins the texts of all scalars in a key that is a
// mapping or a list.
func keyText(n *yaml.Node) string {
	if n.Kind == yaml.ScalarNode {
		return n.Value
	}
	var parts []string
	walk(n, func(n *yaml.Node) bool {
		parts = append(parts, n.Value)
		return true
	})
	return strings.Join(parts, "\x00")
}

// treeOf returns the value of an edit as a tree.
func treeOf(v any) any {
	switch v := v.(type) {
	case Fields:
		m := map[string]any{}
		for _, f := range v {
			m[f.Key] = treeOf(f.Value)
		}
		return m
	case []any:
		list := []any{}
		for _, item := range v {
			list = append(list, treeOf(item))
		}
		return list
	}
	if b, isBool := v.(bool); isBool {
		return fmt.Sprintf("!!bool %v", b)
	}
	return fmt.Sprintf("!!str %v", v)
}

// reads reports whether a node equals a tree. A mapping with a duplicate key equals none.
func reads(n *yaml.Node, want any) bool {
	switch want := want.(type) {
	case *yaml.Node:
		return same(n, want)
	case string:
		return n.Kind == yaml.ScalarNode && n.Tag+" "+n.Value == want
	case []any:
		if n.Kind != yaml.SequenceNode || len(n.Content) != len(want) {
			return false
		}
		for i, item := range n.Content {
			if !reads(item, want[i]) {
				return false
			}
		}
		return true
	case map[string]any:
		if n.Kind != yaml.MappingNode || len(n.Content) != 2*len(want) {
			return false
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			if value, found := want[keyText(n.Content[i])]; !found || !reads(n.Content[i+1], value) {
				return false
			}
		}
		return true
	}
	return false
}

// same reports whether two nodes are equal apart from comments, styles and positions.
func same(a, b *yaml.Node) bool {
	if a.Kind != b.Kind || a.Tag != b.Tag || a.Value != b.Value || a.Anchor != b.Anchor || len(a.Content) != len(b.Content) {
		return false
	}
	for i := range a.Content {
		if !same(a.Content[i], b.Content[i]) {
			return false
		}
	}
	return true
}
