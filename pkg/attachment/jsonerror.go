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

// decodeJSON is json.Unmarshal with errors for the author of the text: a syntax
// error has its line and column, both from 1, and a hint where the mistake is a
// common one; a value of the wrong type has its field.
func decodeJSON(text []byte, into any) error {
	err := json.Unmarshal(text, into)
	var syntax *json.SyntaxError
	var wrongType *json.UnmarshalTypeError
	switch {
	case errors.As(err, &syntax):
		at := offender(text, syntax)
		line, column := position(text, at)
		return fmt.Errorf("line %d, column %d: %w%s", line, column, err, hint(text, at, err.Error()))
	case errors.As(err, &wrongType) && wrongType.Field != "":
		return fmt.Errorf("%s: must be %s, not %s", wrongType.Field, jsonType(wrongType.Type), wrongType.Value)
	case errors.As(err, &wrongType):
		return fmt.Errorf("must be %s, not %s", jsonType(wrongType.Type), wrongType.Value)
	}
	return err
}

// jsonType is what JSON calls a Go type.
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

// offender is the index of the byte at which the text stops being JSON, the
// text's length when it ends too early.
func offender(text []byte, err *json.SyntaxError) int {
	if strings.HasPrefix(err.Error(), "unexpected end") {
		return len(text)
	}
	return max(int(err.Offset)-1, 0)
}

func position(text []byte, at int) (line, column int) {
	before := text[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// hint covers what authors of public NetworkAttachmentDefinitions got wrong.
func hint(text []byte, at int, message string) string {
	if at == len(text) {
		return ": is a closing bracket or quote missing?"
	}
	rest, before := text[at:], bytes.TrimRight(text[:at], " \t\r\n")
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
