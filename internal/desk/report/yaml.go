package report

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
)

// writeYAML writes the JSON form of a document as YAML, in its order. It does not parse JSON as YAML,
// which fails for keys of more than 1,024 letters and for some characters.
func writeYAML[T any](w io.Writer, document T) error {
	text, err := json.Marshal(document)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	root, err := yamlNode(d)
	if err != nil {
		return err
	}
	// The encoder would hide why a writer fails.
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(root), e.Close()); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}

// yamlNode parses the next value.
func yamlNode(d *json.Decoder) (*yaml.Node, error) {
	token, err := d.Token()
	if err != nil {
		return nil, err
	}
	switch token := token.(type) {
	case json.Delim:
		if token == '{' {
			return yamlList(d, yaml.MappingNode)
		}
		return yamlList(d, yaml.SequenceNode)
	case string:
		return yamlString(token), nil
	case json.Number:
		return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!int", Value: token.String()}, nil
	}
	return &yaml.Node{Kind: yaml.ScalarNode, Value: strings.ReplaceAll(fmt.Sprint(token), "<nil>", "null")}, nil
}

// yamlList parses the rest of an object or array. In a mapping node, keys and values
// alternate as they do in the text.
func yamlList(d *json.Decoder, kind yaml.Kind) (*yaml.Node, error) {
	n := &yaml.Node{Kind: kind}
	for d.More() {
		item, err := yamlNode(d)
		if err != nil {
			return nil, err
		}
		n.Content = append(n.Content, item)
	}
	if len(n.Content) == 0 {
		n.Style = yaml.FlowStyle
	}
	_, err := d.Token()
	return n, err
}

// yamlString returns a string. It quotes characters that do not print, and words that
// parsers of YAML 1.1 read as another type.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsFunc(s, unprintable) || slices.Contains(oldBools, strings.ToLower(s)) || strings.Trim(s, "0123456789:_.+-") == "" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// oldBools are words for true and false in YAML 1.1, which also has numbers to the base 60.
var oldBools = []string{"y", "yes", "on", "n", "no", "off"}
