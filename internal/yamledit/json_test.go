package yamledit

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/test/bounded"
)

const podJSON = `{"metadata": {"generateName": "web-", "ownerReferences": [{"kind": "ReplicaSet", "name": "web"}],
	"annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}},
	"spec": {"containers": [{"name": "a", "resources": {"limits": {"intel.com/vf": "1"}}}, {"name": "b"}]}}`

// TestJSONParsesAsYAML compares the nodes of both parsers, with their positions.
func TestJSONParsesAsYAML(t *testing.T) {
	for _, text := range []string{
		`{"a": [1, -2.5, 1e3, 18446744073709551615, true, null, "x\n\"y\""], "b": {}, "c": []}`,
		"---\n{\n  \"a\" : {\"b\":[ {\"c\":\"ä\", \"d\": \"…\"}, 1]}\n}\n",
		"--- [\r\n\t\"a\", \"\u2028\", 2]",
		"{\"a\": \"\", \"b\":\n\n{\"c\": 1}}",
		podJSON,
	} {
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(text), &node); err != nil {
			t.Fatal(err)
		}
		got, want := jsonRoot([]byte(text)), node.Content[0]
		if got == nil || !same(got, want) {
			t.Errorf("%s: the parsers disagree", text)
			continue
		}
		samePlaces(t, got, want)
	}
}

func samePlaces(t *testing.T, got, want *yaml.Node) {
	t.Helper()
	if got.Line != want.Line || got.Column != want.Column || got.Style != want.Style {
		t.Errorf("%q is at %d:%d (%d), not %d:%d (%d)", want.Value, got.Line, got.Column, got.Style, want.Line, want.Column, want.Style)
	}
	for i := range got.Content {
		samePlaces(t, got.Content[i], want.Content[i])
	}
}

// FuzzJSON checks that the span of every node of a JSON text is valid JSON.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{podJSON, `{"a": [1, {"b": null}]}`, "--- []", `{"a": "\ud83d\ude00"}`, `[[[1.5e-3, -0]]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bounded.Run(t, len(text), func() {
			n := jsonRoot([]byte(text))
			if n == nil {
				return
			}
			source := newSource([]byte(text))
			walk(n, func(n *yaml.Node) bool {
				end, err := source.end(n)
				if err != nil {
					t.Fatalf("%q has no end: %v", n.Value, err)
				}
				if part := []byte(text)[source.start(n):end]; !json.Valid(part) {
					t.Fatalf("the span of %q is %q", n.Value, part)
				}
				return true
			})
		})
	})
}

// TestJSONGrowth checks that finding the ends of many values, and of values in many others, is not work with the square of
// their number.
func TestJSONGrowth(t *testing.T) {
	for _, shape := range []func(n int) string{
		func(n int) string { return "[" + strings.Repeat(`{"a": "b"}, `, n) + "1]" },
		func(n int) string { return "[\n" + strings.Repeat("1,\n", n) + "1]" },
	} {
		bounded.Growth(t, 4000, func(n int) func() {
			text := []byte(shape(n))
			return func() {
				root, source := jsonRoot(text), newSource(text)
				walk(root, func(n *yaml.Node) bool {
					_, err := source.end(n)
					return err == nil
				})
			}
		})
	}
	bounded.Growth(t, 2000, func(n int) func() {
		text := []byte(strings.Repeat("[", n) + "1" + strings.Repeat("]", n))
		return func() { _, _ = newSource(text).end(jsonRoot(text)) }
	})
}
