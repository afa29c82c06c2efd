package translate

import (
	"bytes"
	"errors"
	"fmt"
	"strings"

	"go.yaml.in/yaml/v3"
)

// File is a manifest: YAML with any number of documents, or JSON.
type File struct {
	// Name is for positions.
	Name string
	Data []byte
}

// document is one of a file's documents: a part of its text, which is
// everything from one "---" to the next.
type document struct {
	file string
	// line is the number of lines of the file before the text.
	line int
	text []byte
	// root is nil where there is nothing but comments, or an error.
	root *yaml.Node
	err  error
	// shared are the anchors that aliases refer to.
	shared map[string]bool
	// src is the text's source, once somebody needs it.
	src *source
}

func (d *document) source() source {
	if d.src == nil {
		s := newSource(d.text)
		d.src = &s
	}
	return *d.src
}

// split cuts a file into its documents. Joined, their texts are the file. A
// line that begins with "---" separates documents wherever it occurs, also
// within quotes and blocks of text (YAML 1.2, 9.1.2).
func split(f File) []*document {
	var docs []*document
	start, line, startLine := 0, 0, 0
	for at := 0; at < len(f.Data); {
		end := len(f.Data)
		if i := bytes.IndexByte(f.Data[at:], '\n'); i >= 0 {
			end = at + i + 1
		}
		if at > start && separates(f.Data[at:end]) && hasContent(f.Data[start:at]) {
			docs = append(docs, &document{file: f.Name, line: startLine, text: f.Data[start:at]})
			start, startLine = at, line
		}
		at = end
		line++
	}
	if start < len(f.Data) {
		docs = append(docs, &document{file: f.Name, line: startLine, text: f.Data[start:]})
	}
	return docs
}

func separates(line []byte) bool {
	return bytes.HasPrefix(line, []byte("---")) && (len(line) == 3 || strings.ContainsRune(" \t\r\n", rune(line[3])))
}

// hasContent keeps comments and directives with the document that they precede.
func hasContent(text []byte) bool {
	for line := range bytes.Lines(text) {
		trimmed := bytes.TrimSpace(line)
		if len(trimmed) > 0 && trimmed[0] != '#' && line[0] != '%' && !bytes.Equal(trimmed, []byte("\xef\xbb\xbf")) {
			return true
		}
	}
	return false
}

// parse reads the document's nodes.
func (d *document) parse() {
	d.root, d.shared, d.err, d.src = nil, nil, nil, nil
	if d.root = jsonRoot(d.text); d.root != nil {
		return
	}
	var node yaml.Node
	if d.err = decode(d.text, &node); d.err != nil || len(node.Content) == 0 {
		return
	}
	d.root = node.Content[0]
	walk(d.root, func(n *yaml.Node) bool {
		if n.Kind == yaml.AliasNode {
			if d.shared == nil {
				d.shared = map[string]bool{}
			}
			d.shared[n.Value] = true
		}
		return true
	})
}

// decode reads one document, without panics, which the library has for some
// texts.
func decode(text []byte, node *yaml.Node) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("parsing YAML: %v", p)
		}
	}()
	if !bytes.Contains(text, []byte("\n...")) {
		return yaml.Unmarshal(text, node)
	}
	// "..." ends a document; another one may follow without "---".
	decoder := yaml.NewDecoder(bytes.NewReader(text))
	if err := decoder.Decode(node); err != nil {
		return err
	}
	var second yaml.Node
	if decoder.Decode(&second) == nil {
		return errors.New(`parsing YAML: it has several documents that are not separated by lines of "---"`)
	}
	return nil
}

// at is a node's place in the file.
func (d *document) at(n *yaml.Node) Position {
	if n == nil {
		return Position{File: d.file, Line: d.line + 1, Column: 1}
	}
	return Position{File: d.file, Line: d.line + n.Line, Column: n.Column}
}
