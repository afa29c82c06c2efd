package yamledit

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// jsonReader reads JSON as nodes, with the positions that the YAML parser would give them. The
// YAML parser rejects some JSON: pairs of \u escapes for one character, the escape \/, the
// character DEL, and keys of more than a kilobyte.
type jsonReader struct {
	text    []byte
	decoder *json.Decoder
	// base is the offset of the decoder's text.
	base int
	// at, line and column are the current position.
	at, line, column int
}

// jsonRoot parses a JSON document. It returns nil for anything else.
func jsonRoot(text []byte) *yaml.Node {
	base := 0
	if separates(text) {
		base = len("---")
	}
	body := text[base:]
	if start := bytes.TrimLeft(body, " \t\r\n"); len(start) == 0 || start[0] != '{' && start[0] != '[' || !json.Valid(body) {
		return nil
	}
	r := &jsonReader{text: text, base: base, decoder: json.NewDecoder(bytes.NewReader(body)), line: 1, column: 1}
	r.decoder.UseNumber()
	return r.node()
}

// node reads a value. It ignores the decoder's errors because the text is valid JSON; the
// decoder limits the depth of nesting.
func (r *jsonReader) node() *yaml.Node {
	r.advance(r.next())
	n := &yaml.Node{Kind: yaml.ScalarNode, Line: r.line, Column: r.column}
	token, _ := r.decoder.Token()
	switch v := token.(type) {
	case json.Delim:
		n.Kind, n.Tag, n.Style = yaml.SequenceNode, "!!seq", yaml.FlowStyle
		if v == '{' {
			n.Kind, n.Tag = yaml.MappingNode, "!!map"
		}
		for r.decoder.More() {
			n.Content = append(n.Content, r.node())
		}
		_, _ = r.decoder.Token()
	case string:
		n.Tag, n.Value, n.Style = "!!str", v, yaml.DoubleQuotedStyle
	case json.Number:
		n.Tag, n.Value = numberTag(v.String()), v.String()
	case bool:
		n.Tag, n.Value = "!!bool", strconv.FormatBool(v)
	default:
		n.Tag, n.Value = "!!null", "null"
	}
	return n
}

func numberTag(s string) string {
	_, err := strconv.ParseInt(s, 10, 64)
	if _, unsignedErr := strconv.ParseUint(s, 10, 64); err == nil || unsignedErr == nil {
		return "!!int"
	}
	return "!!float"
}

// next returns the offset of the next token.
func (r *jsonReader) next() int {
	at := r.base + int(r.decoder.InputOffset())
	for at < len(r.text) && strings.IndexByte(" \t\r\n,:", r.text[at]) >= 0 {
		at++
	}
	return at
}

// advance moves to an offset and counts lines and columns as lineStarts does.
func (r *jsonReader) advance(to int) {
	for r.at < to {
		c, size := utf8.DecodeRune(r.text[r.at:])
		r.at += size
		r.column++
		switch crlf := c == '\r' && r.at < len(r.text) && r.text[r.at] == '\n'; {
		case crlf:
		case c == '\n', c == '\r', c == '\u0085', c == '\u2028', c == '\u2029':
			r.line, r.column = r.line+1, 1
		}
	}
}
