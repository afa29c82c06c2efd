// Package jsontext finds the place of a syntax error in JSON, suggests a repair, measures nesting, and compares
// encodings. jsontext.go is its only file.
package jsontext

import (
	"bytes"
	"encoding/json"
	"strings"
	"unicode/utf8"
)

// Offender returns the index of the byte at which the text stops being JSON. It is the text's
// length if the text ends too early.
func Offender(text []byte, err *json.SyntaxError) int {
	if strings.HasPrefix(err.Error(), "unexpected end") {
		return len(text)
	}
	return max(int(err.Offset)-1, 0)
}

// Position returns the line and column of an index. Both begin at 1; columns count
// characters.
func Position(text []byte, at int) (line, column int) {
	before := text[:at]
	start := bytes.LastIndexByte(before, '\n') + 1
	return 1 + bytes.Count(before, []byte("\n")), 1 + utf8.RuneCount(before[start:])
}

// Hint returns a sentence to append to the error, or "". It covers the mistakes in public
// NetworkAttachmentDefinitions.
func Hint(text []byte, at int, err *json.SyntaxError) string {
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

// Depth returns how deeply lists and objects are nested, without decoding the text, which may be
// invalid: it counts the brackets outside of strings.
func Depth[T ~string | ~[]byte](text T) int {
	depth, deepest, quoted := 0, 0, false
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{', c == '[':
			depth++
			deepest = max(deepest, depth)
		case c == '}', c == ']':
			depth--
		}
	}
	return deepest
}

// Same reports whether two values are encoded alike. Spaces in raw values do not count.
func Same(a, b any) bool {
	x, errX := json.Marshal(a)
	y, errY := json.Marshal(b)
	return errX == nil && errY == nil && bytes.Equal(x, y)
}
