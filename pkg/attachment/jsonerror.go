package attachment

import (
	"encoding/json"
	"errors"
	"fmt"
	"reflect"

	"github.com/nadra-dev/nadra/internal/jsontext"
)

// decodeJSON decodes JSON as json.Unmarshal does, with errors for the author of the text. A syntax
// error has its line and column, both from 1, and a hint for common mistakes. An error about a
// value of the wrong type has the field.
func decodeJSON(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at := jsontext.Offender(text, syntax)
		line, column := jsontext.Position(text, at)
		return fmt.Errorf("line %d, column %d: %w%s", line, column, err, jsontext.Hint(text, at, syntax))
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return fmt.Errorf("%s: must be %s, not %s", wrongType.Field, jsonType(wrongType.Type), wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("must be %s, not %s", jsonType(wrongType.Type), wrongType.Value)
	}
	return err
}

// jsonType returns the JSON name of a Go type.
func jsonType(t reflect.Type) string {
	switch t.Kind() {
	case reflect.String:
		return "a string"
	case reflect.Bool:
		return "true or false"
	case reflect.Slice:
		return "a list"
	case reflect.Map, reflect.Struct:
		return "an object"
	}
	return "a number of type " + t.String()
}
