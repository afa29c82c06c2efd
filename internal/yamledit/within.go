package yamledit

import (
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Within returns the line and column in the file of the character of a scalar's value at an
// offset. YAML folds lines and drops indentation, so Within compares value and text character
// by character, without white space. It returns the position of the scalar if they differ, as
// they do after an escape.
func (d *Document) Within(n *yaml.Node, at int) (line, column int) {
	if n == nil || n.Kind != yaml.ScalarNode || at > len(n.Value) {
		return d.At(n)
	}
	s := d.source()
	i, err := s.properties(s.start(n))
	if err != nil {
		return d.At(n)
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
		if i = skipSpace(d.Text, i); i >= len(d.Text) {
			return d.At(n)
		}
		if escaped := d.Text[i] == '\\' && r != '\\' || d.Text[i] == '\'' && r == '\'' && n.Style&yaml.SingleQuotedStyle != 0; escaped {
			i++
		}
		got, size := utf8.DecodeRune(d.Text[i:])
		if got != r {
			return d.At(n)
		}
		i += size
	}
	if i = skipSpace(d.Text, i); i > len(d.Text) {
		return d.At(n)
	}
	line, column = s.place(i)
	return d.Line + line, column
}

// skipSpace returns the offset after white space of any kind.
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
