package yamledit

import (
	"strconv"

	"go.yaml.in/yaml/v3"
)

// MergeKey is the key of a mapping that takes in the entries of other mappings.
const MergeKey = "<<"

// Resolved returns the node that an alias stands for, or the node itself.
func Resolved(n *yaml.Node) *yaml.Node {
	if n != nil && n.Kind == yaml.AliasNode {
		return n.Alias
	}
	return n
}

// KeyIndex returns the index of a mapping's own key in its Content, or -1.
func KeyIndex(m *yaml.Node, key string) int {
	for i := 0; i+1 < len(m.Content); i += 2 {
		if k := m.Content[i]; k.Kind == yaml.ScalarNode && k.Value == key {
			return i
		}
	}
	return -1
}

// Child returns the child of a mapping or list to which one step of a path leads, or nil.
func Child(n *yaml.Node, step string) *yaml.Node {
	switch n.Kind {
	case yaml.MappingNode:
		if i := KeyIndex(n, step); i >= 0 {
			return n.Content[i+1]
		}
	case yaml.SequenceNode:
		if i, err := strconv.Atoi(step); err == nil && i >= 0 && i < len(n.Content) {
			return n.Content[i]
		}
	}
	return nil
}

// Entries calls f for each own entry of a mapping, with the value that an alias stands for.
func Entries(m *yaml.Node, f func(key, value *yaml.Node)) {
	if m == nil || m.Kind != yaml.MappingNode {
		return
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		f(m.Content[i], Resolved(m.Content[i+1]))
	}
}

// IsEmpty reports whether a value is absent, null, {} or [].
func IsEmpty(n *yaml.Node) bool {
	if n == nil || n.Kind == yaml.ScalarNode {
		return n == nil || n.ShortTag() == "!!null"
	}
	return n.Kind != yaml.AliasNode && len(n.Content) == 0
}

// walk visits nodes in the order of the text, without following aliases. It visits the
// children of the nodes for which visit returns true.
func walk(n *yaml.Node, visit func(*yaml.Node) bool) {
	if n == nil || !visit(n) {
		return
	}
	for _, child := range n.Content {
		walk(child, visit)
	}
}
