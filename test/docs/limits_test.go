package docs

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/printer"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
)

const limitsBegin = "<!-- What follows is made of pkg/api/v1alpha1/limits.go: go test ./test/docs -run TestLimits -args -update -->\n"

// TestLimits compares the table in docs/reference/limits.md with the constants of the API.
func TestLimits(t *testing.T) {
	path := filepath.Join(root, "docs", "reference", "limits.md")
	page, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	head, _, begins := strings.Cut(string(page), limitsBegin)
	if !begins {
		t.Fatalf("%s has no line %q", path, limitsBegin)
	}
	golden.Check(t, path, head+limitsBegin+limitsOf(t))
}

// limitsOf returns a table of the constants of the API that are limits, with the first paragraph of each
// comment as the meaning and the others as the reason.
func limitsOf(t *testing.T) string {
	t.Helper()
	files := token.NewFileSet()
	source, err := parser.ParseFile(files, filepath.Join(root, "pkg", "api", "v1alpha1", "limits.go"), nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	out.WriteString("\n| Limit | Value | Why |\n| --- | --: | --- |\n")
	ast.Inspect(source, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || !spec.Names[0].IsExported() {
			return true
		}
		var text strings.Builder
		if err := printer.Fprint(&text, files, spec.Values[0]); err != nil {
			t.Fatal(err)
		}
		value, err := types.Eval(token.NewFileSet(), nil, token.NoPos, text.String())
		if err != nil {
			t.Fatal(err)
		}
		meaning, why, _ := strings.Cut(spec.Doc.Text(), "\n\n")
		meaning = strings.TrimPrefix(oneLine(meaning), spec.Names[0].Name+" is ")
		fmt.Fprintf(&out, "| %s | %s | %s |\n", meaning, value.Value, oneLine(why))
		return true
	})
	return out.String()
}
