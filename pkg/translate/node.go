package translate

import (
	"slices"
	"strconv"

	"go.yaml.in/yaml/v3"
)

// walk visits nodes in the order of the text, without following aliases, and
// goes into those for which visit says so.
func walk(n *yaml.Node, visit func(*yaml.Node) bool) {
	if n == nil || !visit(n) {
		return
	}
	for _, child := range n.Content {
		walk(child, visit)
	}
}

// resolved is the node that an alias stands for.
func resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// walkPaths visits the mappings in a node, with their paths.
func walkPaths(n *yaml.Node, at Path, visit func(*yaml.Node, Path)) {
	switch n.Kind {
	case yaml.MappingNode:
		visit(n, at)
		for i := 0; i+1 < len(n.Content); i += 2 {
			walkPaths(n.Content[i+1], at.Child(n.Content[i].Value), visit)
		}
	case yaml.SequenceNode:
		for i, item := range n.Content {
			walkPaths(item, at.Index(i), visit)
		}
	}
}

const mergeKey = "<<"

// get returns the value of a key of a mapping, nil if it has none. Values that
// come by a merge key count after the mapping's own.
func get(m *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		m = lookUp(resolved(m), key, 0)
	}
	return resolved(m)
}

func lookUp(m *yaml.Node, key string, depth int) *yaml.Node {
	const deep = 8 // merges of merges; anchors may be cyclic
	if m == nil || m.Kind != yaml.MappingNode || depth > deep {
		return nil
	}
	if i := keyIndex(m, key); i >= 0 {
		return m.Content[i+1]
	}
	i := keyIndex(m, mergeKey)
	if i < 0 {
		return nil
	}
	merged := resolved(m.Content[i+1])
	if merged.Kind != yaml.SequenceNode {
		return lookUp(merged, key, depth+1)
	}
	for _, source := range merged.Content {
		if v := lookUp(resolved(source), key, depth+1); v != nil {
			return v
		}
	}
	return nil
}

// keyIndex is where a mapping's own key is in its content, or -1.
func keyIndex(m *yaml.Node, key string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if k := m.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return i
		}
	}
	return -1
}

// keyNode is the node of a mapping's own key, nil if it has none.
func keyNode(m *yaml.Node, key string) *yaml.Node {
	m = resolved(m)
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	if i := keyIndex(m, key); i >= 0 {
		return m.Content[i]
	}
	return nil
}

// str is the text of a scalar, whatever its type; empty for all else.
func str(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// items are the elements of a list; none for all else.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

// entries calls f for each own entry of a mapping.
func entries(m *yaml.Node, f func(key, value *yaml.Node)) {
	if m == nil || m.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		f(m.Content[i], resolved(m.Content[i+1]))
	}
}

func isMapping(n *yaml.Node) bool { return n != nil && n.Kind == yaml.MappingNode }

// isEmpty reports whether a value is absent, null, {} or [].
func isEmpty(n *yaml.Node) bool {
	if n == nil || n.Kind == yaml.ScalarNode {
		return n == nil || n.ShortTag() == "!!null"
	}
	return n.Kind != yaml.AliasNode && len(n.Content) == 0
}

// step is the child of a node that one step of a path leads to, nil if none.
func step(n *yaml.Node, s string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		if i := keyIndex(n, s); i >= 0 {
			return n.Content[i+1]
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(s); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// editable reports whether the values along a path belong to no other place of
// the document.
func (d *document) editable(path Path) bool {
	n := d.root
	for _, s := range path {
		if n.Kind == yaml.AliasNode || d.shared[n.Anchor] || n.Kind == yaml.MappingNode && keyIndex(n, mergeKey) >= 0 {
			return false
		}
		if n = step(n, s); n == nil {
			return true
		}
	}
	return n.Kind != yaml.AliasNode && !slices.ContainsFunc(anchorsIn(n), func(a string) bool { return d.shared[a] })
}

func anchorsIn(n *yaml.Node) []string {
	var anchors []string
	walk(n, func(n *yaml.Node) bool {
		if n.Anchor != "" {
			anchors = append(anchors, n.Anchor)
		}
		return true
	})
	return anchors
}
