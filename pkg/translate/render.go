package translate

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// layout is how a document is written, so that additions look like the rest.
type layout struct {
	// step is the indentation of a mapping in a mapping, list that of a list.
	step, list int
	newline    string
	// quoted asks for JSON.
	quoted bool
}

// plainForm are strings that need no quotes anywhere in YAML, but for words
// that mean something.
var plainForm = regexp.MustCompile(`^[A-Za-z/][-A-Za-z0-9._/]*$`)

var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

func scalar(v any, quoted bool) string {
	s, isString := v.(string)
	if !isString {
		return fmt.Sprint(v)
	}
	if !quoted && plainForm.MatchString(s) && !slices.Contains(words, strings.ToLower(s)) {
		return s
	}
	raw, err := json.Marshal(s)
	if err != nil {
		panic(fmt.Sprintf("encoding a string: %v", err))
	}
	return string(raw)
}

// flow renders a value on one line.
func flow(v any, quoted bool) string {
	var parts []string
	switch v := v.(type) {
	case fields:
		for _, f := range v {
			parts = append(parts, scalar(f.key, quoted)+": "+flow(f.value, quoted))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case []any:
		for _, item := range v {
			parts = append(parts, flow(item, quoted))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return scalar(v, quoted)
}

// pretty renders a value over several lines of JSON; indent is that of the line
// it begins on.
func pretty(v any, indent int, l layout) string {
	var parts []string
	closing := "}"
	switch v := v.(type) {
	case fields:
		for _, f := range v {
			parts = append(parts, scalar(f.key, l.quoted)+": "+pretty(f.value, indent+l.step, l))
		}
	case []any:
		closing = "]"
		for _, item := range v {
			parts = append(parts, pretty(item, indent+l.step, l))
		}
	default:
		return scalar(v, l.quoted)
	}
	inner := l.newline + spaces(indent+l.step)
	opening := map[string]string{"}": "{", "]": "["}[closing]
	return opening + inner + strings.Join(parts, ","+inner) + l.newline + spaces(indent) + closing
}

// entry renders "key: value" as lines of a block mapping, without the first
// line's indentation and the last line's end.
func entry(f field, indent int, l layout) string {
	switch f.value.(type) {
	case fields:
		return scalar(f.key, false) + ":" + l.newline + block(f.value, indent+l.step, l)
	case []any:
		return scalar(f.key, false) + ":" + l.newline + block(f.value, indent+l.list, l)
	}
	return scalar(f.key, false) + ": " + scalar(f.value, false)
}

// block renders a value as lines of a block collection, the first one indented.
func block(v any, indent int, l layout) string {
	return spaces(indent) + hanging(v, indent, l)
}

// hanging is block after something that stands where the first indentation is.
func hanging(v any, indent int, l layout) string {
	var lines []string
	switch v := v.(type) {
	case fields:
		for _, f := range v {
			lines = append(lines, entry(f, indent, l))
		}
	case []any:
		for _, item := range v {
			lines = append(lines, "- "+hanging(item, indent+2, l))
		}
	default:
		return scalar(v, false)
	}
	return strings.Join(lines, l.newline+spaces(indent))
}

func spaces(n int) string { return strings.Repeat(" ", n) }
