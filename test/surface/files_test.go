package surface

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// goldenFile returns a file that another test compares with what the product writes.
func goldenFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(name)))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// written returns a line for each value of a CDI spec, and for each content of the driver's file about the owner: the
// container runtime and the next driver read them.
func written(t *testing.T) (out []string) {
	t.Helper()
	var spec any
	if err := json.Unmarshal([]byte(goldenFile(t, "pkg/driver/internal/cdi/testdata/spec.json")), &spec); err != nil {
		t.Fatal(err)
	}
	out = values(spec, "file cdi/net.nadra.dev-gate_UID.json ")
	for line := range strings.Lines(goldenFile(t, "pkg/driver/testdata/owner.txt")) {
		out = append(out, "file owner "+strings.TrimSpace(line))
	}
	if len(out) < 20 {
		t.Errorf("found only %q", out)
	}
	return out
}

// values returns a line for each value of a document in JSON.
func values(of any, path string) (out []string) {
	switch of := of.(type) {
	case map[string]any:
		for key, value := range of {
			out = append(out, values(value, path+"."+key)...)
		}
	case []any:
		for _, value := range of {
			out = append(out, values(value, path+"[]")...)
		}
	default:
		out = append(out, fmt.Sprintf("%s %v", path, of))
	}
	return out
}

// layouts returns a line for each program in the images of a release, by the list of the program that makes them. The first
// one of nadra's own programs is the entrypoint.
func layouts(t *testing.T) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, "build", "release", "main.go"), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	text := func(e ast.Expr) string { s, _ := strconv.Unquote(e.(*ast.BasicLit).Value); return s }
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.VAR {
			continue
		}
		for _, spec := range g.Specs {
			v := spec.(*ast.ValueSpec)
			if v.Names[0].Name != "images" {
				continue
			}
			for _, image := range v.Values[0].(*ast.CompositeLit).Elts {
				fields := image.(*ast.CompositeLit).Elts
				name, programs := text(fields[0]), fields[1].(*ast.CompositeLit).Elts
				for _, p := range programs {
					out = append(out, "image "+name+" /"+text(p))
				}
				if text(fields[2]) == "" {
					out = append(out, "image "+name+" runs /"+text(programs[0]))
				}
			}
		}
	}
	if len(out) < 20 {
		t.Errorf("found only %q", out)
	}
	return out
}
