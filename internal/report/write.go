package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// formats has every form of a report, as people should read of them.
var formats = []struct {
	name  string
	write func(io.Writer, *Report) error
}{
	{"table", writeTable},
	{"wide", writeWide},
	{"json", writeJSON},
	{"yaml", writeYAML},
	{"csv", writeCSV},
	{"markdown", writeMarkdown},
	{"html", writeHTML},
	{"sarif", writeSARIF},
	{"junit", writeJUnit},
}

// Formats are the names of the forms that Write knows.
func Formats() []string {
	names := make([]string, 0, len(formats))
	for _, f := range formats {
		names = append(names, f.name)
	}
	return names
}

// Write writes a report in one of its forms.
func Write(w io.Writer, format string, r *Report) error {
	for _, f := range formats {
		if f.name != format {
			continue
		}
		b := bufio.NewWriter(w)
		if err := f.write(b, r); err != nil {
			return fmt.Errorf("writing the report as %s: %w", format, err)
		}
		if err := b.Flush(); err != nil {
			return fmt.Errorf("writing the report as %s: %w", format, err)
		}
		return nil
	}
	return fmt.Errorf("%q is no format of a report: there are %s", format, strings.Join(Formats(), ", "))
}

func writeJSON(w io.Writer, r *Report) error { return encodeJSON(w, r) }

func encodeJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	return e.Encode(v)
}
