package translate

import (
	"encoding/json"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

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

// networksKeys are the annotations by which pods request networks.
var networksKeys = []string{attachment.NetworksAnnotation, attachment.OwnNetworksAnnotation}

// eachAnnotation visits networks annotations anywhere in an object, with their paths.
func eachAnnotation(o object, visit func(key, value *yaml.Node, path Path)) {
	walkPaths(o.node, o.path, func(n *yaml.Node, at Path) {
		for _, key := range networksKeys {
			if i := yamledit.KeyIndex(n, key); i >= 0 {
				visit(n.Content[i], n.Content[i+1], at.Child(key))
			}
		}
	})
}

// countKeys returns how many mappings in a node have a key. Unlike walkPaths it makes no paths, which takes
// most of the time in large objects.
func countKeys(n *yaml.Node, key string) int {
	count := 0
	if n.Kind == yaml.MappingNode && yamledit.KeyIndex(n, key) >= 0 {
		count++
	}
	for _, child := range n.Content {
		count += countKeys(child, key)
	}
	return count
}

// spot is a value of a document and its path. The node of a missing value is nil.
type spot struct {
	node *yaml.Node
	path Path
}

// get returns the value below a mapping, by its keys.
func (s spot) get(keys ...string) spot { return spot{get(s.node, keys...), s.path.Child(keys...)} }

// str returns the text of a scalar, "" of any other value.
func (s spot) str() string { return str(s.node) }

// items returns the items of a list.
func (s spot) items() []spot {
	var out []spot
	for i, n := range items(s.node) {
		out = append(out, spot{n, s.path.Index(i)})
	}
	return out
}

// named returns the item of a list that has a name.
func (s spot) named(name string) spot {
	for _, item := range s.items() {
		if item.get("name").str() == name {
			return item
		}
	}
	return spot{}
}

// adding returns the edits that append items to a list, which they make if it is missing.
func (s spot) adding(items ...any) []Edit {
	return AppendEdits(s.path, yamledit.IsEmpty(s.node), items...)
}

// get returns the value to which keys lead from a mapping, or nil. The mapping's own entries
// take precedence over those of a merge key.
func get(m *yaml.Node, keys ...string) *yaml.Node {
	for _, key := range keys {
		m = lookUp(yamledit.Resolved(m), key, 0)
	}
	return yamledit.Resolved(m)
}

func lookUp(m *yaml.Node, key string, depth int) *yaml.Node {
	const deep = 8 // merges of merges; anchors may be cyclic
	if m == nil || m.Kind != yaml.MappingNode || depth > deep {
		return nil
	}
	if i := yamledit.KeyIndex(m, key); i >= 0 {
		return m.Content[i+1]
	}
	i := yamledit.KeyIndex(m, yamledit.MergeKey)
	if i < 0 {
		return nil
	}
	merged := yamledit.Resolved(m.Content[i+1])
	if merged.Kind != yaml.SequenceNode {
		return lookUp(merged, key, depth+1)
	}
	for _, source := range merged.Content {
		if v := lookUp(yamledit.Resolved(source), key, depth+1); v != nil {
			return v
		}
	}
	return nil
}

// keyNode returns the node of a mapping's own key, or nil.
func keyNode(m *yaml.Node, key string) *yaml.Node {
	m = yamledit.Resolved(m)
	if m == nil || m.Kind != yaml.MappingNode {
		return nil
	}
	if i := yamledit.KeyIndex(m, key); i >= 0 {
		return m.Content[i]
	}
	return nil
}

// str returns the text of a scalar of any type. It returns "" for null and for other nodes.
func str(n *yaml.Node) string {
	if n == nil || n.Kind != yaml.ScalarNode || n.ShortTag() == "!!null" {
		return ""
	}
	return n.Value
}

// items returns the elements of a list. It returns nil for other nodes.
func items(n *yaml.Node) []*yaml.Node {
	if n == nil || n.Kind != yaml.SequenceNode {
		return nil
	}
	return n.Content
}

func isMapping(n *yaml.Node) bool { return n != nil && n.Kind == yaml.MappingNode }

// decodeNode decodes a node into a type of the API, by way of JSON. It reports whether it
// succeeded.
func decodeNode(n *yaml.Node, into any) bool {
	var raw any
	if n == nil || n.Decode(&raw) != nil {
		return false
	}
	text, err := json.Marshal(raw)
	return err == nil && json.Unmarshal(text, into) == nil
}

// decoded decodes a value of the API. It returns the zero value for an invalid one.
func decoded[T any](s spot) (out T) {
	if !decodeNode(s.node, &out) {
		out = *new(T)
	}
	return out
}
