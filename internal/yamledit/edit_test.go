package yamledit

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// TestEdited applies edits to texts in many forms. Every byte that is not listed must stay.
func TestEdited(t *testing.T) {
	claims := []any{Fields{{"name", "nadra"}}}
	for name, tc := range map[string]struct {
		text  string
		edits []Edit
		want  string
	}{
		"a key of a block mapping": {
			"a: # c\n  b: 1\n\n# end\n", []Edit{{Add, Path{"a", "c"}, "x"}}, "a: # c\n  b: 1\n  c: x\n\n# end\n",
		},
		"a list in the layout of the document": {
			"a:\n    b:\n      - 1\n", []Edit{{Add, Path{"a", "claims"}, claims}}, "a:\n    b:\n      - 1\n    claims:\n      - name: nadra\n",
		},
		"an item of a block list": {
			"a:\n- b: c\n", []Edit{{Add, Path{"a", "-"}, Fields{{"name", "x"}, {"on", "on"}}}}, "a:\n- b: c\n- name: x\n  \"on\": \"on\"\n",
		},
		"an item of a flow list, twice": {
			"a: [b]\n", []Edit{{Add, Path{"a", "-"}, "c"}, {Add, Path{"a", "-"}, "d"}}, "a: [b, c, d]\n",
		},
		"a key of JSON on many lines": {
			"{\n  \"a\": 1\n}\n", []Edit{{Add, Path{"b"}, claims}}, "{\n  \"a\": 1,\n  \"b\": [\n    {\n      \"name\": \"nadra\"\n    }\n  ]\n}\n",
		},
		"a value that keeps its quotes": {
			"a: '1'\nb: 2\n", []Edit{{Replace, Path{"a"}, "3"}, {Replace, Path{"b"}, "4"}}, "a: '3'\nb: 4\n",
		},
		"null": {"a: ~ # c\n", []Edit{{Add, Path{"a"}, claims}}, "a:\n- name: nadra # c\n"},
		"an entry with its comment": {
			"a:\n  b: 1 # c\n  d: 2\n", []Edit{{Op: Remove, Path: Path{"a", "b"}}}, "a:\n  d: 2\n",
		},
		"the first entry of an item": {
			"a:\n- b: 1\n  c: 2\n", []Edit{{Op: Remove, Path: Path{"a", "0", "b"}}}, "a:\n- c: 2\n",
		},
		"entries of a flow mapping": {
			"{a: 1, b: 2, c: 3}", []Edit{{Op: Remove, Path: Path{"b"}}, {Op: Remove, Path: Path{"a"}}}, "{c: 3}",
		},
		"after a block of text without a line end": {
			"a:\n  b: |\n    x", []Edit{{Add, Path{"a", "c"}, true}}, "a:\n  b: |-\n    x\n  c: true",
		},
		"a key in front of a block of text": {
			"a:\n  k/v: |\n    x # y\n  b: 1\n", []Edit{{Rename, Path{"a", "k/v"}, "n/v"}, {Add, Path{"a", "c"}, true}}, "a:\n  n/v: |\n    x # y\n  b: 1\n  c: true\n",
		},
		"keys in quotes": {
			"{\"a\": 1, 'b': 2}", []Edit{{Rename, Path{"a"}, "c"}, {Rename, Path{"b"}, "d"}}, "{\"c\": 1, 'd': 2}",
		},
		"line ends of Windows": {"a:\r\n  b: 1\r\n", []Edit{{Add, Path{"a", "c"}, "x"}}, "a:\r\n  b: 1\r\n  c: x\r\n"},
	} {
		got, err := Edited("f.yaml", []byte(tc.text), tc.edits)
		if err != nil || string(got) != tc.want {
			t.Errorf("%s: got %q, %v, want %q", name, got, err, tc.want)
		}
	}
}

// TestEditedRefuses checks that texts which cannot be edited stay as they are.
func TestEditedRefuses(t *testing.T) {
	for name, tc := range map[string]struct{ text, want string }{
		"several documents": {"a: 1\n---\na: 2\n", "2 documents"},
		"only comments":     {"# none\n", "empty"},
		"invalid YAML":      {"a: [", "yaml"},
		"a missing path":    {"b: {}\n", "no such path"},
		"a duplicate key":   {"a: {b: 1, b: 2}\n", "does not parse as"},
	} {
		got, err := Edited("f.yaml", []byte(tc.text), []Edit{{Add, Path{"a", "c"}, "x"}})
		if err == nil || !strings.Contains(err.Error(), tc.want) || !strings.Contains(err.Error(), "f.yaml") {
			t.Errorf("%s: got %q, %v", name, got, err)
		}
	}
	if got, err := Edited("f.yaml", []byte("a: 1\nb: 2\n"), []Edit{{Rename, Path{"a"}, "b"}}); err == nil || !strings.Contains(err.Error(), "key b ") {
		t.Errorf("a key that is taken: got %q, %v", got, err)
	}
}

// TestSplit checks that the parts of a file are its documents and, joined, the file.
func TestSplit(t *testing.T) {
	for _, tc := range []struct {
		text  string
		lines []int
	}{
		{"", nil},
		{"a: 1\n", []int{0}},
		{"# c\n---\na: 1\n---\n# d\n---\nb: 2", []int{0, 3, 5}},
		{"%YAML 1.1\n---\na: 1\n--- |\n  text\n", []int{0, 3}},
		{"\xef\xbb\xbf\n---\na: 1\r\n---\r\nb: 2\r\n", []int{0, 3}},
	} {
		var joined []byte
		var lines []int
		for _, p := range Split([]byte(tc.text)) {
			joined, lines = append(joined, p.Text...), append(lines, p.Line)
		}
		if !bytes.Equal(joined, []byte(tc.text)) || !slices.Equal(lines, tc.lines) {
			t.Errorf("%q: got %q, documents at lines %v, want %v", tc.text, joined, lines, tc.lines)
		}
	}
}

// TestEditable checks which paths share their value with another place of the document.
func TestEditable(t *testing.T) {
	const text = "shared: &s\n  b: {c: 1}\nalias: *s\nunused: &u {d: 1}\nmerged:\n  <<: *s\n  e: {f: 1}\nplain: {list: [{g: 1}]}\n"
	d, err := Parse(Part{Text: []byte(text)})
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]bool{
		"shared": false, "shared/b/c": false, "alias/b": false, "alias": false, "merged/e": false, "merged/e/f": false,
		"unused/d": true, "unused": true, "plain/list/0/g": true, "plain/list/-": true, "missing/x": true,
	} {
		if got := d.Editable(strings.Split(path, "/")); got != want {
			t.Errorf("%s: got %v", path, got)
		}
	}
}

func TestEditAsJSONPatch(t *testing.T) {
	got, err := json.Marshal([]Edit{
		{Add, Path{"a/b~", "-"}, Fields{{"z", []any{true, "x"}}, {"a", "\"1\""}}},
		{Op: Remove, Path: Path{"a"}.Index(0)},
		{Rename, Path{"a", "k/v"}, "n/v"},
	})
	if want := `[{"op":"add","path":"/a~1b~0/-","value":{"z":[true,"x"],"a":"\"1\""}},{"op":"remove","path":"/a/0"},{"op":"move","from":"/a/k~1v","path":"/a/n~1v"}]`; err != nil || string(got) != want {
		t.Errorf("got %s, %v", got, err)
	}
	if got := (Path{"spec", "c", "0", "k8s.io/x", "-"}).String(); got != "spec.c[0][k8s.io/x][-]" {
		t.Errorf("got %s", got)
	}
}

// TestWithin checks positions of characters in values of all styles.
func TestWithin(t *testing.T) {
	for name, text := range map[string]string{
		"literal":       "a: |\n  [\n    {\"name\": \"b\",\n     \"X\": 1}]\n",
		"folded":        "a: >-\n  [\n  {\"name\": \"b\",\n  \"X\": 1}]\n",
		"single quotes": "a: '[{\"name\":\n    \"it''s\", \"X\": 1}]'\n",
		"tagged":        "a: !!str '[{\"X\": 1}]'\n",
		"after a BOM":   "\xef\xbb\xbfa: '[{\"X\": 1}]'\n",
		"umlauts":       "a: '[{\"äöü\": 1, \"X\": 1}]'\n",
	} {
		d, err := Parse(Part{Line: 10, Text: []byte(text)})
		if err != nil {
			t.Fatal(err)
		}
		value := Child(d.Root, "a")
		line, column := d.Within(value, strings.Index(value.Value, "X"))
		if rest := text[d.source().offset(line-10, column):]; rest[0] != 'X' {
			t.Errorf("%s: the position is that of %q", name, rest)
		}
		// An escape ends the comparison.
		if line, column := d.Within(&yaml.Node{Kind: yaml.ScalarNode, Value: "é", Line: 1, Column: 1}, 2); line != 11 || column != 1 {
			t.Errorf("%s: got %d:%d for a value that is not in the text", name, line, column)
		}
	}
}
