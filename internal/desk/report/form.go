package report

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// Formats are the formats of one kind of document.
type Formats[T any] struct {
	// what names the document in errors.
	what  string
	forms []form[T]
}

// form is a format.
type form[T any] struct {
	name  string
	write func(io.Writer, T) error
}

// tabular returns the formats of a document with a table.
func tabular[T any](what string, table func(*sheet, T)) Formats[T] {
	return NewFormats(what, "table", drawn(table))
}

// NewFormats returns the formats of a document with a text for people. what names the document in errors.
func NewFormats[T any](what, name string, text func(io.Writer, T) error) Formats[T] {
	return Formats[T]{what, []form[T]{{name, text}, {"json", writeJSON[T]}, {"yaml", writeYAML[T]}}}
}

// Names returns the names of the formats, the default first.
func (f Formats[T]) Names() []string {
	names := make([]string, 0, len(f.forms))
	for _, form := range f.forms {
		names = append(names, form.name)
	}
	return names
}

// Write writes a document in the named format.
func (f Formats[T]) Write(w io.Writer, name string, document T) error {
	for _, form := range f.forms {
		if form.name != name {
			continue
		}
		if err := form.write(w, document); err != nil {
			return fmt.Errorf("writing %s as %s: %w", f.what, name, err)
		}
		return nil
	}
	return fmt.Errorf("%q is not a format of %s: use one of %s", name, f.what, strings.Join(f.Names(), ", "))
}

// writeJSON writes a document as indented JSON.
func writeJSON[T any](w io.Writer, document T) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(document)
}
