package translate

import (
	"encoding/json"
	"strings"
	"testing"

	"go.yaml.in/yaml/v3"
)

// What both read, they read alike: values, and where they are.
func TestJSONReadsAsYAML(t *testing.T) {
	for _, text := range []string{
		`{"a": [1, -2.5, 1e3, 18446744073709551615, true, null, "x\n\"y\""], "b": {}, "c": []}`,
		"---\n{\n  \"a\" : {\"b\":[ {\"c\":\"ä\", \"d\": \"…\"}, 1]}\n}\n",
		"--- [\r\n\t\"a\", \"\u2028\", 2]",
		"{\"a\": \"\", \"b\":\n\n{\"c\": 1}}",
		onePod,
	} {
		var node yaml.Node
		if err := yaml.Unmarshal([]byte(text), &node); err != nil {
			t.Fatal(err)
		}
		got, want := jsonRoot([]byte(text)), node.Content[0]
		if got == nil || !same(got, want) {
			t.Errorf("%s is read otherwise", text)
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

// JSON that the YAML parser refuses is converted like any other, and keeps its
// escapes.
func TestJSONOnly(t *testing.T) {
	long := strings.Repeat("k", 2000)
	for _, odd := range []string{`"\ud83d\ude00"`, "\"\x7f\"", `"\ud83d"`, `{"` + long + `": 1}`, `"\u0000"`, `"\/"`} {
		text := `{"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p", "annotations": {"k8s.v1.cni.cncf.io/networks": "lan"}},
 "x": ` + odd + `, "spec": {"containers": [{"name": "c", "args": [` + odd + `]}]}}`
		in := Input{Files: []File{{"p.json", []byte(text)}}}
		got := Convert(in)
		if len(got.Workloads) != 1 || !got.Workloads[0].Changed || !json.Valid(got.Files[0].Data) || strings.Count(string(got.Files[0].Data), odd) != 2 {
			t.Errorf("%s: got %v\n%s", odd, got.Findings, got.Files[0].Data)
		}
		checkIdempotent(t, in, got)
	}
}

// No text is read as something else than encoding/json reads.
func FuzzJSON(f *testing.F) {
	for _, seed := range []string{onePod, `{"a": [1, {"b": null}]}`, "--- []", `{"a": "\ud83d\ude00"}`, `[[[1.5e-3, -0]]]`} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
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
				t.Fatalf("%q is not where it should be but %q", n.Value, part)
			}
			return true
		})
	})
}
