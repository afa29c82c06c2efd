package translate

import (
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// within is the place in the file of a character of a scalar's value. YAML
// folds lines and drops indentation, so the characters that are no white space
// are counted off in value and text. Where they do not match, for an escape,
// it is the place where the scalar begins.
func (d *document) within(n *yaml.Node, at int) Position {
	if n == nil || n.Kind != yaml.ScalarNode || at > len(n.Value) {
		return d.at(n)
	}
	s := d.source()
	i, err := s.properties(s.start(n))
	if err != nil {
		return d.at(n)
	}
	switch {
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		i = s.nextLine(i)
	case n.Style&(yaml.SingleQuotedStyle|yaml.DoubleQuotedStyle) != 0:
		i++
	}
	for _, r := range n.Value[:at] {
		if unicode.IsSpace(r) {
			continue
		}
		if i = skipSpace(d.text, i); i >= len(d.text) {
			return d.at(n)
		}
		if escaped := d.text[i] == '\\' && r != '\\' || d.text[i] == '\'' && r == '\'' && n.Style&yaml.SingleQuotedStyle != 0; escaped {
			i++
		}
		got, size := utf8.DecodeRune(d.text[i:])
		if got != r {
			return d.at(n)
		}
		i += size
	}
	if i = skipSpace(d.text, i); i > len(d.text) {
		return d.at(n)
	}
	line, column := s.place(i)
	return Position{File: d.file, Line: d.line + line, Column: column}
}

func skipSpace(text []byte, i int) int {
	for i < len(text) {
		r, size := utf8.DecodeRune(text[i:])
		if !unicode.IsSpace(r) {
			break
		}
		i += size
	}
	return i
}
