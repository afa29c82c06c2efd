package yamledit

import (
	"bytes"

	"go.yaml.in/yaml/v3"
)

// layout is how a document is written. Additions follow it.
type layout struct {
	// step is the indentation of a mapping in a mapping, list that of a list in a mapping.
	step, list int
	newline    string
	// quoted is set for JSON.
	quoted bool
}

// layoutOf reads the layout of a document from its first nested mapping and list.
func layoutOf(d *Document) layout {
	l := layout{step: 2, list: -1, newline: "\n", quoted: d.Root.Style&yaml.FlowStyle != 0}
	if bytes.Contains(d.Text, []byte("\r\n")) {
		l.newline = "\r\n"
	}
	stepped := false
	walk(d.Root, func(n *yaml.Node) bool {
		if n.Kind == yaml.MappingNode {
			Entries(n, func(key, value *yaml.Node) {
				indent := value.Column - key.Column
				switch {
				case value.Style&yaml.FlowStyle != 0 && !l.quoted || len(value.Content) == 0:
				case value.Kind == yaml.MappingNode && !stepped && value.Content[0].Line > key.Line:
					if width := value.Content[0].Column - key.Column; width > 0 && width <= 8 {
						l.step, stepped = width, true
					}
				case value.Kind == yaml.SequenceNode && l.list < 0 && value.Line > key.Line && indent >= 0 && indent <= 8:
					l.list = indent
				}
			})
		}
		return l.list < 0 || !stepped
	})
	if l.list < 0 {
		l.list = 0
	}
	return l
}
