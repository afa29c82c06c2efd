package yamledit

import (
	"bytes"
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

var errText = errors.New("the text is not at the position that the parser reported")

// start returns the offset of a node.
func (s source) start(n *yaml.Node) int { return s.offset(n.Line, n.Column) }

// lineStart returns the offset of the line that contains at.
func (s source) lineStart(at int) int {
	return bytes.LastIndexByte(s.text[:at], '\n') + 1
}

// nextLine returns the offset of the line after the one that contains at.
func (s source) nextLine(at int) int {
	if i := bytes.IndexByte(s.text[at:], '\n'); i >= 0 {
		return at + i + 1
	}
	return len(s.text)
}

// end returns the offset after a node.
func (s source) end(n *yaml.Node) (int, error) {
	at, err := s.properties(s.start(n))
	if err != nil {
		return 0, err
	}
	switch n.Kind {
	case yaml.AliasNode:
		return at + len("*") + len(n.Value), nil
	case yaml.ScalarNode:
		return s.scalarEnd(n, at)
	}
	if n.Style&yaml.FlowStyle != 0 {
		return s.flowEnd(n, at)
	}
	if len(n.Content) == 0 {
		return 0, errText
	}
	return s.end(n.Content[len(n.Content)-1])
}

// properties skips a node's tag and anchor and returns the offset after them.
func (s source) properties(at int) (int, error) {
	for at < len(s.text) && (s.text[at] == '&' || s.text[at] == '!') {
		for at < len(s.text) && !isSpace(s.text[at]) {
			at++
		}
		at = s.blank(at)
	}
	if at > len(s.text) {
		return 0, errText
	}
	return at, nil
}

// blank returns the offset after white space, line ends and comments.
func (s source) blank(at int) int {
	for at < len(s.text) {
		switch {
		case isSpace(s.text[at]):
			at++
		case s.text[at] == '#':
			at = s.nextLine(at)
		default:
			return at
		}
	}
	return at
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\r' || c == '\n' }

// scalarEnd returns the offset after a scalar that begins at an offset.
func (s source) scalarEnd(n *yaml.Node, at int) (int, error) {
	switch {
	case n.Style&yaml.SingleQuotedStyle != 0:
		return s.quotedEnd(at, '\'')
	case n.Style&yaml.DoubleQuotedStyle != 0:
		return s.quotedEnd(at, '"')
	case n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		return s.blockEnd(n, at)
	}
	return s.plainEnd(n.Value, at)
}

// quotedEnd returns the offset after the closing quote. It skips a doubled quote in single
// quotes and a backslash with its character in double quotes.
func (s source) quotedEnd(at int, quote byte) (int, error) {
	if at >= len(s.text) || s.text[at] != quote {
		return 0, errText
	}
	for at++; at < len(s.text); at++ {
		switch {
		case s.text[at] == '\\' && quote == '"':
			at++
		case s.text[at] == quote && quote == '\'' && at+1 < len(s.text) && s.text[at+1] == quote:
			at++
		case s.text[at] == quote:
			return at + 1, nil
		}
	}
	return 0, errText
}

// plainEnd returns the offset after the words of a plain scalar. A plain scalar has no
// escapes; white space and line ends separate its words.
func (s source) plainEnd(value string, at int) (int, error) {
	for i, word := range strings.Fields(value) {
		for i > 0 && at < len(s.text) {
			r, size := utf8.DecodeRune(s.text[at:])
			if !unicode.IsSpace(r) {
				break
			}
			at += size
		}
		if !bytes.HasPrefix(s.text[at:], []byte(word)) {
			return 0, errText
		}
		at += len(word)
	}
	return at, nil
}

// blockEnd returns the offset after a literal or folded scalar. Its words are those of its
// value, as in a plain scalar. If the header has a "+", the empty lines after the last word
// belong to the scalar.
func (s source) blockEnd(n *yaml.Node, at int) (int, error) {
	header := s.nextLine(at)
	end := at + len(bytes.TrimRight(s.text[at:header], "\r\n"))
	if strings.TrimSpace(n.Value) != "" {
		last, err := s.plainEnd(n.Value, s.skip(header))
		if err != nil {
			return 0, err
		}
		end = last
	}
	if !bytes.ContainsRune(s.text[at:header], '+') {
		return end, nil
	}
	for line := s.nextLine(end); line < len(s.text); line = s.nextLine(line) {
		content := bytes.TrimRight(s.text[line:s.nextLine(line)], "\r\n")
		if len(bytes.TrimLeft(content, " ")) > 0 {
			break
		}
		end = line + len(content)
	}
	return end, nil
}

// skip returns the offset after white space and line ends.
func (s source) skip(at int) int {
	for at < len(s.text) && isSpace(s.text[at]) {
		at++
	}
	return at
}

// flowEnd returns the offset after the bracket that closes a flow collection.
func (s source) flowEnd(n *yaml.Node, at int) (int, error) {
	closing := map[byte]byte{'{': '}', '[': ']'}
	if at >= len(s.text) || closing[s.text[at]] == 0 {
		return 0, errText
	}
	bracket := closing[s.text[at]]
	at++
	if len(n.Content) > 0 {
		end, err := s.end(n.Content[len(n.Content)-1])
		if err != nil {
			return 0, err
		}
		at = max(at, end)
	}
	for at = s.blank(at); at < len(s.text) && strings.ContainsRune(",:", rune(s.text[at])); {
		at = s.blank(at + 1)
	}
	if at >= len(s.text) || s.text[at] != bracket {
		return 0, errText
	}
	return at + 1, nil
}
