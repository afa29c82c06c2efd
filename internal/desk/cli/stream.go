package cli

import (
	"bufio"
	"bytes"
	"encoding/json"
	"fmt"
	"io"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/internal/desk/source"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// stream returns the documents for standard output: created objects, then the files. For a
// live cluster, it returns only changed files. It leaves out kustomizations and the
// helpers of charts, which cannot be applied.
func stream(set *source.Set, result translate.Result) [][]byte {
	out := translate.Texts(result.Created)
	for i, f := range result.Files {
		if set.Live && bytes.Equal(f.Data, set.Files[i].Data) || translate.IsKustomization(set.Files[i].Rel) || source.IsHelper(set.Files[i].Rel) {
			continue
		}
		out = append(out, f.Data)
	}
	return out
}

// writeStream writes the documents as one stream of YAML.
func writeStream(w io.Writer, set *source.Set, result translate.Result) error {
	buffered := bufio.NewWriter(w)
	join(buffered, stream(set, result))
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

// writeList writes all objects as one JSON list. It leaves out documents that are not YAML, of which a
// finding tells.
func writeList(w io.Writer, set *source.Set, result translate.Result) error {
	items := []any{}
	for _, text := range stream(set, result) {
		items = append(items, decode(text)...)
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

// decode decodes the objects of a text.
func decode(text []byte) []any {
	var out []any
	for _, part := range translate.Documents(text) {
		var object any
		if yaml.Unmarshal(part, &object) == nil && object != nil {
			out = append(out, object)
		}
	}
	return out
}
