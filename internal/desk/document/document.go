// Package document reads and writes the files of kubectl nadra that have an apiVersion and a kind.
package document

import (
	"bytes"
	"encoding/json"
	"fmt"

	"sigs.k8s.io/yaml"
)

// Read parses JSON or YAML that has an apiVersion and a kind. It ignores unknown fields, which a later version
// may have, and rejects another apiVersion or kind. Its errors end with the remedy.
func Read(text []byte, apiVersion, kind, remedy string, document any) error {
	unmarshal := func(text []byte, to any) error { return yaml.Unmarshal(text, to) }
	if bytes.HasPrefix(bytes.TrimSpace(text), []byte("{")) {
		unmarshal = json.Unmarshal // which refuses what comes after the document
	}
	var head struct{ APIVersion, Kind string }
	err := unmarshal(text, &head)
	if err == nil && (head.APIVersion != apiVersion || head.Kind != kind) {
		err = fmt.Errorf("apiVersion %.60q and kind %.60q are not %s %s", head.APIVersion, head.Kind, apiVersion, kind)
	}
	if err == nil {
		err = unmarshal(text, document)
	}
	if err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return nil
}

// JSON encodes a value as JSON with an indent and a last newline. It leaves <, > and & as they are.
func JSON(value any, indent string) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", indent)
	if err := e.Encode(value); err != nil {
		return nil, fmt.Errorf("writing JSON: %w", err)
	}
	return out.Bytes(), nil
}
