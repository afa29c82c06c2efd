package words

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// root is the module's directory.
const root = "../.."

// product lists the directories of the product, and everything lists all with Go files.
var (
	product    = []string{"cmd", "internal", "pkg"}
	everything = []string{"build", "cmd", "internal", "pkg", "test"}
)

// file is a Go file that is neither a test nor generated.
type file struct {
	dir, name string
	ast       *ast.File
	lines     int
}

// source is the Go files below some directories, sorted by path.
type source struct {
	set   *token.FileSet
	files []file
}

// readSource parses the Go files below directories, without tests, testdata and generated
// files.
func readSource(t *testing.T, directories []string) source {
	t.Helper()
	s := source{set: token.NewFileSet()}
	for _, directory := range directories {
		err := fs.WalkDir(os.DirFS(root), directory, func(name string, entry fs.DirEntry, err error) error {
			switch {
			case err != nil:
				return err
			case entry.IsDir() && entry.Name() == "testdata":
				return fs.SkipDir
			case entry.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go"):
				return nil
			}
			parsed, err := parser.ParseFile(s.set, filepath.Join(root, filepath.FromSlash(name)), nil, parser.ParseComments|parser.SkipObjectResolution)
			if err == nil && !ast.IsGenerated(parsed) {
				s.files = append(s.files, file{path.Dir(name), path.Base(name), parsed, s.set.File(parsed.FileStart).LineCount()})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if len(s.files) == 0 {
		t.Fatal("there are no Go files: is this the module's directory?")
	}
	return s
}

// position returns the path and line of a node.
func (s source) position(node ast.Node) string {
	p := s.set.Position(node.Pos())
	return strings.TrimPrefix(filepath.ToSlash(p.String()), root+"/")
}

// byDir groups the files by directory.
func (s source) byDir() map[string][]file {
	out := map[string][]file{}
	for _, f := range s.files {
		out[f.dir] = append(out[f.dir], f)
	}
	return out
}

// functions calls visit for every function and method.
func (s source) functions(visit func(file, *ast.FuncDecl)) {
	for _, f := range s.files {
		for _, d := range f.ast.Decls {
			if function, ok := d.(*ast.FuncDecl); ok {
				visit(f, function)
			}
		}
	}
}

// typeName is the name of a type in its directory.
type typeName struct{ dir, name string }

// methods returns the number of methods of each type.
func (s source) methods() map[typeName]int {
	out := map[typeName]int{}
	s.functions(func(f file, function *ast.FuncDecl) {
		if function.Recv == nil {
			return
		}
		receiver := function.Recv.List[0].Type
		for {
			switch t := receiver.(type) {
			case *ast.StarExpr:
				receiver = t.X
			case *ast.IndexExpr:
				receiver = t.X
			case *ast.IndexListExpr:
				receiver = t.X
			case *ast.Ident:
				out[typeName{f.dir, t.Name}]++
				return
			default:
				return
			}
		}
	})
	return out
}

// fields returns the number of fields of each struct type.
func (s source) fields() map[typeName]int {
	out := map[typeName]int{}
	for _, f := range s.files {
		ast.Inspect(f.ast, func(n ast.Node) bool {
			spec, ok := n.(*ast.TypeSpec)
			if !ok {
				return true
			}
			if structure, ok := spec.Type.(*ast.StructType); ok {
				out[typeName{f.dir, spec.Name.Name}] = structure.Fields.NumFields()
			}
			return true
		})
	}
	return out
}

// commentCount counts function comments.
type commentCount struct{ all, stative int }

// share returns the share of stative comments in percent.
func (c commentCount) share() float64 {
	if c.all == 0 {
		return 0
	}
	return 100 * float64(c.stative) / float64(c.all)
}

// stativeVerbs begin comments that describe a state and not what a function does.
var stativeVerbs = []string{"is", "are", "has", "have", "says", "say", "tells", "tell", "knows", "know"}

// isStative reports whether a comment begins with a name and a stative verb.
func isStative(comment string) bool {
	words := strings.Fields(comment)
	return len(words) > 1 && slices.Contains(stativeVerbs, words[1])
}

// comments counts the function comments of each directory, and calls visit for those that
// are stative.
func (s source) comments(visit func(file, *ast.FuncDecl)) map[string]commentCount {
	out := map[string]commentCount{}
	s.functions(func(f file, function *ast.FuncDecl) {
		if function.Doc == nil {
			return
		}
		c := out[f.dir]
		c.all++
		if isStative(function.Doc.Text()) {
			c.stative++
			visit(f, function)
		}
		out[f.dir] = c
	})
	return out
}
