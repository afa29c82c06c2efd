package attachment

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"strings"
	"unicode/utf8"
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
		at := offender(text, syntax)
		line, column := position(text, at)
		return fmt.Errorf("line %d, column %d: %w%s", line, column, err, hint(text, at, syntax))
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

// offender returns the index of the byte at which the text stops being JSON. It is the text's
// length if the text ends too early.
func offender(text []byte, err *json.SyntaxError) int {
	if strings.HasPrefix(err.Error(), "unexpected end") {
		return len(text)
	}
	return max(int(err.Offset)-1, 0)
}

// position returns the line and column of an index. Both begin at 1; columns count
// characters.
func position(text []byte, at int) (line, column int) {
	before := text[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// hint returns a sentence to append to the error, or "". It covers the mistakes in public
// NetworkAttachmentDefinitions.
func hint(text []byte, at int, err *json.SyntaxError) string {
	if at == len(text) {
		return ": is a closing bracket or quote missing?"
	}
	rest, before := text[at:], bytes.TrimRight(text[:at], " \t\r\n")
	message := err.Error()
	switch {
	case rest[0] == '#' || bytes.HasPrefix(rest, []byte("//")):
		return ": JSON has no comments, and YAML leaves those inside a quoted string in place: remove the comment"
	case rest[0] == '\'':
		return ": JSON strings take double quotes"
	case (rest[0] == '}' || rest[0] == ']') && bytes.HasSuffix(before, []byte(",")):
		return ": remove the comma before it"
	case strings.HasSuffix(message, "after object key"):
		return ": is a colon missing before it?"
	case strings.HasSuffix(message, "after object key:value pair"), strings.HasSuffix(message, "after array element"):
		return ": is a comma or bracket missing before it?"
	case rest[0] == '{' && strings.HasSuffix(message, "looking for beginning of object key string"):
		return ": is a closing bracket missing before it?"
	}
	return ""
}

// SameJSON reports whether two values are encoded alike. Spaces in raw values do not count.
func SameJSON(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
