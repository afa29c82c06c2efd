package yamledit

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"

	"go.yaml.in/yaml/v3"
)

// Part is the text of one document of a file.
type Part struct {
	// Line is the number of lines of the file before Text.
	Line int
	Text []byte
}

// Document is a parsed part of a file.
type Document struct {
	Part
	// Root is nil if the part has only comments.
	Root *yaml.Node
	// shared has the anchors that aliases refer to.
	shared map[string]bool
	// src is set by the first call of source.
	src *source
	// within is where the last call of Within ended.
	within within
}

// Split cuts the text of a file into its documents. The joined texts of the parts are the
// file. A line that begins with "---" separates documents wherever it occurs, also within
// quotes and blocks of text (YAML 1.2, 9.1.2).
func Split(data []byte) []Part {
	var parts []Part
	start, line, startLine := 0, 0, 0
	for at := 0; at < len(data); {
		end := len(data)
		if i := bytes.IndexByte(data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if at > start && separates(data[at:end]) && hasContent(data[start:at]) {
			parts = append(parts, Part{Line: startLine, Text: data[start:at]})
			start, startLine = at, line
		}
		at = end
		line++
	}
	if start < len(data) {
		parts = append(parts, Part{Line: startLine, Text: data[start:]})
	}
	return parts
}

func separates(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3])))
}

// hasContent reports whether a text has more than comments and directives, which stay with the
// document that they precede.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%' && !bytes.Equal(trimmed, []byte("\xef\xbb\xbf")) {
			return true
		}
	}
	return false
}

// Parse parses one document.
func Parse(p Part) (*Document, error) {
	d := &Document{Part: p}
	if d.Root = jsonRoot(p.Text); d.Root != nil {
		return d, nil
	}
	var node yaml.Node
	if err := decode(p.Text, &node); err != nil {
		return nil, err
	}
	if len(node.Content) == 0 {
		return d, nil
	}
	d.Root = node.Content[0]
	walk(d.Root, func(n *yaml.Node) bool {
		if n.Kind == yaml.AliasNode {
			if d.shared == nil {
				d.shared = map[string]bool{}
			}
			d.shared[n.Value] = true
		}
		return true
	})
	return d, nil
}

// decode reads one document. It returns an error for the texts on which the library panics.
func decode(text []byte, node *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parsing YAML: %v", p)
		}
	}()
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	switch err := decoder.Decode(node); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil:
		return err
	}
	// Another document may follow without "---": after "...", and in a stream of JSON.
	var second yaml.Node
	switch err := decoder.Decode(&second); {
	case errors.Is(err, io.EOF):
		return nil
	case err != nil && !bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")):
		return err
	}
	return errors.New(`parsing YAML: several documents are not separated by lines of "---"`)
}

// source returns the index of the document's lines. It builds the index at the first call.
func (d *Document) source() source {
	if d.src == nil {
		s := newSource(d.Text)
		d.src = &s
	}
	return *d.src
}

// At returns the line and column of a node in the file, both from 1: of the document's first
// line for nil.
func (d *Document) At(n *yaml.Node) (line, column int) {
	if n == nil {
		return d.Line + 1, 1
	}
	return d.Line + n.Line, n.Column
}

// Editable reports whether the value at a path can be changed without changing another place
// of the document, by an alias or a merge key.
func (d *Document) Editable(path Path) bool {
	n := d.Root
	for _, s := range path {
		if n.Kind == yaml.AliasNode || d.shared[n.Anchor] || n.Kind == yaml.MappingNode && KeyIndex(n, MergeKey) >= 0 {
			return false
		}
		if n = Child(n, s); n == nil {
			return true
		}
	}
	return n.Kind != yaml.AliasNode && !d.hasSharedAnchor(n)
}

func (d *Document) hasSharedAnchor(n *yaml.Node) bool {
	found := false
	walk(n, func(n *yaml.Node) bool {
		found = found || n.Anchor != "" && d.shared[n.Anchor]
		return !found
	})
	return found
}
