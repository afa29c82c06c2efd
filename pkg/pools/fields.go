package pools

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/internal/words"
)

// object decodes a JSON object field by field, so that each error names its field and
// unknown fields are found. Names match in any case, as in the device plugins: the operator
// writes IsRdma.
type object struct {
	source Source
	fields map[string]json.RawMessage
	errs   []error
}

// newObject decodes a JSON object and rejects null and other values.
func newObject(source Source, raw []byte) (*object, error) {
	var fields map[string]json.RawMessage
	decoder := json.NewDecoder(bytes.NewReader(raw))
	if err := decoder.Decode(&fields); err != nil {
		return nil, source.errorf("invalid JSON object: %w%s", err, where(raw, err))
	}
	if _, err := decoder.Token(); !errors.Is(err, io.EOF) {
		return nil, source.errorf("text follows after the JSON object: remove it")
	}
	if fields == nil {
		return nil, source.errorf("it is null: make it an object, or remove it")
	}
	return &object{source: source, fields: fields}, nil
}

// where returns the line of a syntax error, for an error message.
func where(raw []byte, err error) string {
	var syntax *json.SyntaxError
	if !errors.As(err, &syntax) || syntax.Offset > int64(len(raw)) {
		return ""
	}
	return fmt.Sprintf(" (line %d)", 1+bytes.Count(raw[:syntax.Offset], []byte("\n")))
}

// take removes a field and returns its value, or nil if there is none.
func (o *object) take(name string) json.RawMessage {
	if raw, ok := o.fields[name]; ok {
		delete(o.fields, name)
		return raw
	}
	for key, raw := range o.fields {
		if strings.EqualFold(key, name) {
			delete(o.fields, key)
			return raw
		}
	}
	return nil
}

// get decodes a field, if there is one, into a value.
func (o *object) get(name string, into any) {
	raw := o.take(name)
	if raw == nil {
		return
	}
	if err := json.Unmarshal(raw, into); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			o.fail(name, "%s is not a %s", brief(raw), typeName(kind.Type.String()))
			return
		}
		o.fail(name, "%w", err)
	}
}

// typeName returns the name of a Go type for people who write JSON.
func typeName(t string) string {
	switch {
	case strings.HasPrefix(t, "[]"):
		return "list of strings"
	case strings.HasPrefix(t, "map"):
		return "JSON object"
	case strings.HasPrefix(t, "int"):
		return "whole number"
	}
	return t
}

// brief shortens a value for an error message.
func brief(raw []byte) string { return words.Short(string(bytes.TrimSpace(raw)), 60) }

// fail adds an error about a field.
func (o *object) fail(field, format string, args ...any) {
	o.errs = append(o.errs, o.source.at(field).errorf(format, args...))
}

// end returns all errors, including one for each field that was not taken.
func (o *object) end(remedy string) error {
	names := make([]string, 0, len(o.fields))
	for name := range o.fields {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		o.fail(name, "unknown field with value %s, so the pool is not served: %s", brief(o.fields[name]), remedy)
	}
	return errors.Join(o.errs...)
}
