package yamledit

import (
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// within is how far Within has compared a scalar: at is the offset in its value, and text that in the
// document.
type within struct {
	scalar   *yaml.Node
	at, text int
}

// Within returns the line and column in the file of the character of a scalar's value at an
// offset. YAML folds lines and drops indentation, so Within compares value and text character
// by character, without white space. It returns the position of the scalar if they differ, as
// they do after an escape. It goes on where the last call ended if that was before the offset, so that
// the positions of many characters, in order, cost no more than one comparison.
func (d *Document) Within(n *yaml.Node, at int) (line, column int) {
	if n == nil || n.Kind != yaml.ScalarNode || at > len(n.Value) {
		return d.At(n)
	}
	s := d.source()
	if d.within.scalar != n || d.within.at > at {
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
		d.within = within{n, 0, i}
	}
	i := d.within.text
	for _, r := range n.Value[d.within.at:at] {
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
	d.within = within{n, at, i}
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
