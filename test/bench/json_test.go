package bench

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
)

// json returns the report for programs: the goals, and the document's figures unrounded,
// with a line for each kind.
func (r *report) json() ([]byte, error) {
	goals, err := json.MarshalIndent(r.Goals(), "  ", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the goals: %w", err)
	}
	text, err := json.Marshal(r)
	if err != nil {
		return nil, fmt.Errorf("writing the figures: %w", err)
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal(text, &fields); err != nil {
		return nil, err
	}
	var out bytes.Buffer
	fmt.Fprintf(&out, "{\n  \"goals\": %s,\n  \"report\": {", goals)
	separator := ""
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&out, "%s\n    %q: %s", separator, name, fields[name])
		separator = ","
	}
	out.WriteString("\n  }\n}\n")
	return out.Bytes(), nil
}
