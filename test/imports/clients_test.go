package imports

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// clients are the systems other than Linux that a release has kubectl-nadra for.
var clients = []string{"darwin/arm64", "windows/amd64"}

// TestClients fails if the compiler would refuse the product's part of kubectl-nadra for one of the clients. It checks
// types only, and skips the bodies of functions outside of the product: a build for each system takes minutes.
func TestClients(t *testing.T) {
	own, err := filepath.Abs("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, client := range clients {
		t.Run(client, func(t *testing.T) {
			system, arch, _ := strings.Cut(client, "/")
			roots, err := packages.Load(&packages.Config{
				Mode: packages.LoadAllSyntax, ParseFile: parseOwnBodies(own), Env: append(os.Environ(), "GOOS="+system, "GOARCH="+arch, "CGO_ENABLED=0"),
			}, module+"cmd/kubectl-nadra")
			if err != nil {
				t.Fatal(err)
			}
			checked := 0
			packages.Visit(roots, nil, func(p *packages.Package) {
				ours := strings.HasPrefix(p.PkgPath, module)
				if ours {
					checked++
				}
				for _, e := range p.Errors {
					if ours || e.Kind == packages.ListError { // such as a package without a file for this system
						t.Error(e)
					}
				}
			})
			if checked < 10 {
				t.Errorf("%d packages of the product were checked, want kubectl-nadra and what it imports", checked)
			}
		})
	}
}

// parseOwnBodies returns a parser that skips the bodies of functions in files outside of a folder.
func parseOwnBodies(own string) func(*token.FileSet, string, []byte) (*ast.File, error) {
	return func(files *token.FileSet, name string, source []byte) (*ast.File, error) {
		if below(name, own) {
			return parser.ParseFile(files, name, source, parser.AllErrors)
		}
		file, err := parser.ParseFile(files, name, source, parser.SkipObjectResolution)
		for _, d := range file.Decls {
			if f, ok := d.(*ast.FuncDecl); ok {
				f.Body = nil
			}
		}
		return file, err
	}
}
