package translate

import (
	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

// File is a manifest: YAML with any number of documents, or JSON.
type File struct {
	// Name is the file's name in positions.
	Name string
	Data []byte
}

// document is one document of a file.
type document struct {
	*yamledit.Document
	file string
}

// parseDocument parses one part of a file.
func parseDocument(file string, part yamledit.Part) (*document, error) {
	d, err := yamledit.Parse(part)
	if err != nil {
		return nil, err
	}
	return &document{Document: d, file: file}, nil
}

// at returns the position of a node, of the document for nil.
func (d *document) at(n *yaml.Node) Position {
	line, column := d.At(n)
	return Position{File: d.file, Line: line, Column: column}
}

// within returns the position of a character of a scalar's value, or that of the scalar, as after an escape.
func (d *document) within(n *yaml.Node, offset int) Position {
	p := d.at(n)
	if line, column := d.Within(n, offset); line != p.Line || column != p.Column {
		p.Line, p.Column, p.Offset = line, column, offset
	}
	return p
}

// Edited applies edits to a manifest that has one document. It leaves every other byte as it
// is, as a conversion does.
func Edited(f File, edits []Edit) ([]byte, error) { return yamledit.Edited(f.Name, f.Data, edits) }

// Documents cuts a text into its documents. Joined, they are the text.
func Documents(text []byte) [][]byte {
	var out [][]byte
	for _, part := range yamledit.Split(text) {
		out = append(out, part.Text)
	}
	return out
}
