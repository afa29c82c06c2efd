// Package document reads and writes the files of kubectl nadra that have an apiVersion and a kind.
package document

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Read parses JSON or YAML that has an apiVersion and a kind. It ignores unknown fields, which a later version
// may have, and rejects another apiVersion or kind, and a second document. Its errors end with the remedy.
func Read(text []byte, apiVersion, kind, remedy string, document any) error {
	if err := read(text, apiVersion, kind, document); err != nil {
		return fmt.Errorf("%w: %s", err, remedy)
	}
	return nil
}

func read(text []byte, apiVersion, kind string, document any) error {
	unmarshal := json.Unmarshal
	if !json.Valid(text) {
		if err := alone(text); err != nil {
			return err
		}
		unmarshal = func(text []byte, to any) error { return yaml.Unmarshal(text, to) }
	}
	var head struct{ APIVersion, Kind string }
	if err := unmarshal(text, &head); err != nil {
		return err
	}
	if head.APIVersion != apiVersion || head.Kind != kind {
		return fmt.Errorf("apiVersion %.60q and kind %.60q are not %s %s", head.APIVersion, head.Kind, apiVersion, kind)
	}
	return unmarshal(text, document)
}

// alone returns an error if text is not YAML, or has more than one document: package yaml ignores all but the first.
func alone(text []byte) error {
	d := yamlv3.NewDecoder(bytes.NewReader(text))
	var document yamlv3.Node
	if err := d.Decode(&document); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("reading YAML: %w", err)
	}
	if !errors.Is(d.Decode(&document), io.EOF) {
		return errors.New("something follows the document: keep one of them")
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
