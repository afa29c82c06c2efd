package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
)

const (
	fieldsBegin = "<!-- What follows is made of pkg/api/v1alpha1/types.go: go test ./test/docs -run TestAttachmentConfig -args -update -->\n"
	fieldsEnd   = "<!-- Here ends what is made of pkg/api/v1alpha1/types.go. -->\n"
)

// TestAttachmentConfig compares the fields in docs/reference/attachment-config.md with the types of the API.
func TestAttachmentConfig(t *testing.T) {
	path := filepath.Join(root, "docs", "reference", "attachment-config.md")
	golden.CheckPart(t, path, fieldsBegin, fieldsEnd, fieldsOf(t)+"\n")
}

// fieldsOf returns a table of the fields of each type of the API.
func fieldsOf(t *testing.T) string {
	t.Helper()
	files := token.NewFileSet()
	source, err := parser.ParseFile(files, filepath.Join(root, "pkg", "api", "v1alpha1", "types.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	for _, d := range source.Decls {
		decl, ok := d.(*ast.GenDecl)
		if !ok || decl.Tok != token.TYPE {
			continue
		}
		spec := decl.Specs[0].(*ast.TypeSpec)
		fmt.Fprintf(&out, "\n## %s\n\n%s\n\n| Field | Type | Meaning |\n| --- | --- | --- |\n", spec.Name.Name, oneLine(decl.Doc.Text()))
		for _, f := range spec.Type.(*ast.StructType).Fields.List {
			if len(f.Names) == 0 {
				continue // apiVersion and kind, which the page's own text describes
			}
			name, _, _ := strings.Cut(reflect.StructTag(strings.Trim(f.Tag.Value, "`")).Get("json"), ",")
			var kind strings.Builder
			if err := printer.Fprint(&kind, files, f.Type); err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(&out, "| `%s` | `%s` | %s |\n", name, strings.NewReplacer("*", "", "json.RawMessage", "any JSON").Replace(kind.String()), oneLine(f.Doc.Text()))
		}
	}
	return out.String()
}

// oneLine returns a comment's text without line breaks and marks of generators.
func oneLine(text string) string {
	text, _, _ = strings.Cut(text, "+k8s:")
	return strings.NewReplacer("<", "&lt;", ">", "&gt;").Replace(strings.Join(strings.Fields(text), " "))
}
