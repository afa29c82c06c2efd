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

func writeYAML(w io.Writer, r *Report) error { return encodeYAML(w, r) }

// encodeYAML writes what the JSON form has, in its order. It does not go by way
// of reading JSON as YAML, which it nearly is: a key of 1,025 letters and some
// characters are the difference.
func encodeYAML(w io.Writer, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	root, err := yamlNode(d)
	if err != nil {
		return err
	}
	// The encoder would not hand on why a writer fails.
	var b bytes.Buffer
	e := yaml.NewEncoder(&b)
	e.SetIndent(2)
	if err := errors.Join(e.Encode(root), e.Close()); err != nil {
		return err
	}
	_, err = b.WriteTo(w)
	return err
}

// yamlNode reads the next value.
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

// yamlList reads the rest of an object or array. In a mapping node keys and
// values take turns, as they do in the text.
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

// yamlString quotes what is not plain to see, and what readers of YAML 1.1, of
// which there are many, take for something else.
func yamlString(s string) *yaml.Node {
	n := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: s}
	if strings.ContainsFunc(s, unprintable) || slices.Contains(oldBools, strings.ToLower(s)) || strings.Trim(s, "0123456789:_.+-") == "" {
		n.Style = yaml.DoubleQuotedStyle
	}
	return n
}

// oldBools are words for true and false in YAML 1.1; numbers to the base of 60
// are what else has gone since.
var oldBools = []string{"y", "yes", "on", "n", "no", "off"}
