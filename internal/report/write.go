package report

import (
	"encoding/json"
	"io"
)

// formats lists the formats of a scan's report, in the order of the help text.
var formats = []form[*Report]{
	{"table", writeTable},
	{"wide", writeWide},
	{"json", writeJSON},
	{"yaml", writeYAML},
	{"html", writeHTML},
	{"sarif", writeSARIF},
}

// Formats returns the names of the formats that Write accepts.
func Formats() []string { return namesOf(formats) }

// Write writes a scan's report in a format.
func Write(w io.Writer, format string, r *Report) error {
	return writeForm(w, "the report", formats, format, r)
}

func writeJSON(w io.Writer, r *Report) error { return encodeJSON(w, r) }

// encodeJSON writes v as indented JSON.
func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
