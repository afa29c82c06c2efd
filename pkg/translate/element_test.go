package translate

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

func TestElementKeys(t *testing.T) {
	for annotation, want := range map[string][]string{
		"a":          {"networks[0].name"},
		"a , ns/b@x": {"networks[0].name", "networks[1].namespace", "networks[1].name", "networks[1].interface"},
		`[{"name":"a"},{"x":{"y":1}, "name": "b"}]`: {"networks[0].name", "networks[1].x", "networks[1].name"},
		`[{"mac":"1","MAC":"2"}]`:                   {"networks[0].mac", "networks[0].MAC"},
		`[]`:                                        nil,
		``:                                          nil,
		`{"name":"a"}`:                              nil,
		`[{"name":"a"},`:                            nil,
	} {
		var got []string
		for _, k := range elementKeys(annotation) {
			got = append(got, fmt.Sprintf("networks[%d].%s", k.element, k.key))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: %s", annotation, diff)
		}
	}
}

// TestWithin checks that the position of a key is that of its character in the text, in all
// styles of values.
func TestWithin(t *testing.T) {
	for name, text := range map[string]string{
		"literal":       "a: |\n  [\n    {\"name\": \"b\",\n     \"X\": 1}]\n",
		"folded":        "a: >-\n  [\n  {\"name\": \"b\",\n  \"X\": 1}]\n",
		"single quotes": "a: '[{\"name\":\n    \"it''s\", \"X\": 1}]'\n",
		"double quotes": "a: \"[{\\\"name\\\": \\\"b\\\",\n    \\\"X\\\": 1}]\"\n",
		"tagged":        "a: !!str '[{\"X\": 1}]'\n",
		"after a BOM":   "\xef\xbb\xbfa: '[{\"X\": 1}]'\n",
		"umlauts":       "a: '[{\"äöü\": 1, \"X\": 1}]'\n",
	} {
		d, err := parseDocument("f.yaml", yamledit.Part{Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		value := get(d.Root, "a")
		for _, k := range elementKeys(value.Value) {
			if k.key != "X" {
				continue
			}
			p := d.within(value, k.at)
			line := []rune(strings.TrimPrefix(strings.Split(text, "\n")[p.Line-1], "\xef\xbb\xbf"))
			if rest := string(line[p.Column-1:]); rest[0] != '"' && rest[0] != '\\' || rest[1] != 'X' && rest[2] != 'X' {
				t.Errorf("%s: %v is the position of %q", name, p, rest)
			}
		}
	}
}
