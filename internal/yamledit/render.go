package yamledit

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
)

// plainForm matches the strings that need no quotes in YAML, unless they are reserved words.
var plainForm = regexp.MustCompile(`^[A-Za-z/][-A-Za-z0-9._/]*$`)

// words are the reserved words of YAML 1.1 and 1.2.
var words = []string{"true", "false", "null", "yes", "no", "on", "off", "y", "n"}

// scalar renders a scalar. quoted asks for quotes around all strings.
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
	case Fields:
		for _, f := range v {
			parts = append(parts, scalar(f.Key, quoted)+": "+flow(f.Value, quoted))
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

// pretty renders a value over several lines of JSON. indent is the indentation of its first
// line.
func pretty(v any, indent int, l layout) string {
	var parts []string
	closing := "}"
	switch v := v.(type) {
	case Fields:
		for _, f := range v {
			parts = append(parts, scalar(f.Key, l.quoted)+": "+pretty(f.Value, indent+l.step, l))
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

// entry renders "key: value" as lines of a block mapping, without the indentation of the first
// line and the end of the last one.
func entry(f Field, indent int, l layout) string {
	switch f.Value.(type) {
	case Fields:
		return scalar(f.Key, false) + ":" + l.newline + block(f.Value, indent+l.step, l)
	case []any:
		return scalar(f.Key, false) + ":" + l.newline + block(f.Value, indent+l.list, l)
	}
	return scalar(f.Key, false) + ": " + scalar(f.Value, false)
}

// block renders a value as lines of a block collection.
func block(v any, indent int, l layout) string {
	return spaces(indent) + hanging(v, indent, l)
}

// hanging renders a value as block does, without the indentation of the first line.
func hanging(v any, indent int, l layout) string {
	var lines []string
	switch v := v.(type) {
	case Fields:
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
