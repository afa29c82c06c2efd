package document

import (
	"strings"
	"testing"
)

// TestReadDocument reads JSON and YAML, in which a number may stand for a text, and refuses what is no document of the kind.
func TestReadDocument(t *testing.T) {
	for _, test := range []struct{ text, want string }{
		{`{"apiVersion":"v1","kind":"List","name":"7","later":1}`, ""},
		{"{apiVersion: v1, kind: List, name: 7} # JSON with a remark", ""},
		{`{"apiVersion":"v1","kind":"List"}{"apiVersion":"v1","kind":"List"}`, "follows the document"},
		{"apiVersion: v1\nkind: List\n---\napiVersion: v1\nkind: List\n", "follows the document"},
		{"apiVersion: v1\nkind: List\nname: 7\n", ""},
		{"", `apiVersion "" and kind "" are not v1 List: write one`},
		{`{"apiVersion":"v2","kind":"List"}`, `apiVersion "v2" and kind "List" are not v1 List: write one`},
		{"apiVersion: v1\nkind: Pod\n", `apiVersion "v1" and kind "Pod" are not v1 List: write one`},
		{`{"apiVersion":"v1","kind":"List","name":{}}`, "cannot unmarshal object"},
		{"[1]", "cannot unmarshal array"},
		{"a: [", "YAML"},
	} {
		var got struct{ Name string }
		err := Read([]byte(test.text), "v1", "List", "write one", &got)
		if test.want == "" && (err != nil || got.Name != "7") {
			t.Errorf("%s: read %+v, %v", test.text, got, err)
		}
		if test.want != "" && (err == nil || !strings.Contains(err.Error(), test.want) || !strings.HasSuffix(err.Error(), ": write one")) {
			t.Errorf("%s: error %v, want %q and the remedy", test.text, err, test.want)
		}
	}
}
