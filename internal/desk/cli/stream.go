package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// stream returns the documents for standard output: created objects, then the files. For a
// live cluster, it returns only changed files. It leaves out kustomizations and the
// helpers of charts, which cannot be applied.
func stream(set *manifestSet, result translate.Result) []translate.File {
	var out []translate.File
	for _, text := range translate.Texts(result.Created) {
		out = append(out, translate.File{Name: createdFile, Data: text})
	}
	for i, f := range result.Files {
		if set.Live && bytes.Equal(f.Data, set.Files[i].Data) || translate.IsKustomization(set.Files[i].Rel) || isHelper(set.Files[i].Rel) {
			continue
		}
		out = append(out, f)
	}
	return out
}

// texts returns the texts of files.
func texts(files []translate.File) [][]byte {
	out := make([][]byte, len(files))
	for i, f := range files {
		out[i] = f.Data
	}
	return out
}

// writeStream writes the documents as one stream of YAML.
func writeStream(w io.Writer, set *manifestSet, result translate.Result) error {
	buffered := bufio.NewWriter(w)
	join(buffered, texts(stream(set, result)))
	if err := buffered.Flush(); err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	return nil
}

// writer is a writer that keeps its first error, or has none.
type writer interface {
	io.Writer
	io.StringWriter
	io.ByteWriter
}

// join writes documents, with a separator before each that does not begin with one.
func join(w writer, texts [][]byte) {
	for i, text := range texts {
		if i > 0 && !startsDocument(text) {
			_, _ = w.WriteString("---\n")
		}
		_, _ = w.Write(text)
		if len(text) > 0 && text[len(text)-1] != '\n' {
			_ = w.WriteByte('\n')
		}
	}
}

// joined returns the documents as one text.
func joined(texts [][]byte) []byte {
	var b bytes.Buffer
	join(&b, texts)
	return b.Bytes()
}

// startsDocument reports whether a text begins with a document separator.
func startsDocument(text []byte) bool {
	for line := range bytes.Lines(text) {
		switch trimmed := bytes.TrimSpace(line); {
		case bytes.HasPrefix(line, []byte("---")):
			return true
		case len(trimmed) > 0 && trimmed[0] != '#':
			return false
		}
	}
	return false
}

// writeList writes all objects as one JSON list. It refuses documents that JSON cannot hold.
func writeList(w io.Writer, set *manifestSet, result translate.Result) error {
	items := []json.RawMessage{}
	for _, f := range stream(set, result) {
		for i, part := range translate.Documents(f.Data) {
			item, err := asJSON(f.Name, part)
			if err != nil {
				return fmt.Errorf("writing JSON: document %d of %s: %w; -o yaml keeps it as it is", i+1, f.Name, err)
			}
			if item != nil {
				items = append(items, item)
			}
		}
	}
	text, err := json.MarshalIndent(map[string]any{"apiVersion": "v1", "kind": "List", "items": items}, "", "    ")
	if err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	if _, err := fmt.Fprintf(w, "%s\n", text); err != nil {
		return fmt.Errorf("writing manifests: %w", err)
	}
	return nil
}

// asJSON returns the object of a document, whose numbers stay whole, or nil if it has only comments.
func asJSON(name string, part []byte) (json.RawMessage, error) {
	if json.Valid(part) && bytes.HasPrefix(bytes.TrimSpace(part), []byte("{")) {
		return part, nil // as it is: a number of YAML has 64 bits
	}
	item, err := yaml.YAMLToJSON(part)
	switch {
	case err != nil:
		return nil, err
	case string(item) == "null":
		return nil, nil
	case item[0] != '{':
		return nil, errors.New("it is not an object")
	}
	_, err = translate.Edited(translate.File{Name: name, Data: part}, nil) // another document may follow without ---
	return item, err
}
