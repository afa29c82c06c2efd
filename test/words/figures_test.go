package words

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/scanner"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// budget limits the weight of the product. Who makes the product lighter lowers it.
var budget = []struct {
	of   string
	most int
}{{lines, 76_414}, {tokens, 453_355}, {packages, 55}, {exported, 1_904}}

// The weights of the product. Tokens are those of the Go language, without comments, so that neither long lines nor
// short comments make it lighter.
const (
	lines    = "lines"
	tokens   = "tokens"
	packages = "packages"
	exported = "exported names"
)

// TestBudget holds the weight of the product within its budget.
func TestBudget(t *testing.T) {
	weights := readSource(t, product).weights(t)
	for _, b := range budget {
		if weights[b.of] > b.most {
			t.Errorf("the product has %d %s, more than %d: take away what the change makes unnecessary, or say in the review why the budget has to grow", weights[b.of], b.of, b.most)
		}
	}
}

// weights returns the weights of the files.
func (s source) weights(t *testing.T) map[string]int {
	t.Helper()
	out := map[string]int{packages: len(s.byDir())}
	for _, f := range s.files {
		out[lines] += f.lines
		out[tokens] += f.tokens(t)
		out[exported] += f.exportedNames()
	}
	return out
}

// tokens counts the tokens of a file, without comments and the semicolons that the language adds.
func (f file) tokens(t *testing.T) int {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(f.dir), f.name))
	if err != nil {
		t.Fatal(err)
	}
	var s scanner.Scanner
	s.Init(token.NewFileSet().AddFile(f.name, -1, len(text)), text, nil, 0)
	n := 0
	for {
		switch _, kind, literal := s.Scan(); {
		case kind == token.EOF:
			return n
		case kind != token.SEMICOLON || literal == ";":
			n++
		}
	}
}

// exportedNames counts the exported functions, methods, types, variables and constants of a file.
func (f file) exportedNames() int {
	n := 0
	count := func(name *ast.Ident) {
		if name.IsExported() {
			n++
		}
	}
	for _, d := range f.ast.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			count(d.Name)
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					count(spec.Name)
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						count(name)
					}
				}
			}
		}
	}
	return n
}

// TestFigures prints the sizes of files, functions and types of the product, without
// generated code and tests (make figures). TestFunctionComments and TestBudget limit some of
// them.
func TestFigures(t *testing.T) {
	all := readSource(t, product)
	driver := source{set: all.set, files: slices.DeleteFunc(slices.Clone(all.files), func(f file) bool { return f.dir != "pkg/driver" })}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "\tfiles\tlines of files: median / p90 / max\tlines of functions: median / p90 / max")
	for _, row := range []struct {
		name string
		source
	}{{"product", all}, {"pkg/driver", driver}} {
		fmt.Fprintf(w, "%s\t%d\t%s\t%s\n", row.name, len(row.files), row.fileLines(), row.functionLines())
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "weight of the product\tnow\tbudget")
	weights := all.weights(t)
	for _, b := range budget {
		fmt.Fprintf(w, "%s\t%d\t%d\n", b.of, weights[b.of], b.most)
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "largest types\tmethods\tfields")
	methods, fields := all.methods(), all.fields()
	largest := slices.SortedFunc(maps.Keys(methods), func(a, b typeName) int {
		return cmp.Or(cmp.Compare(methods[b], methods[a]), cmp.Compare(a.dir, b.dir), cmp.Compare(a.name, b.name))
	})
	for _, name := range largest[:min(8, len(largest))] {
		fmt.Fprintf(w, "%s.%s\t%d\t%d\n", name.dir, name.name, methods[name], fields[name])
	}
	fmt.Fprintln(w)
	fmt.Fprintln(w, "function comments\tall\tthat begin \"X is/are/has/says …\"")
	for _, row := range []struct {
		name string
		source
	}{{"product", all}, {"with build and test", readSource(t, everything)}} {
		c := total(row.comments(func(file, *ast.FuncDecl) {}))
		fmt.Fprintf(w, "%s\t%d\t%d (%.1f %%)\n", row.name, c.all, c.stative, c.share())
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Log("\n" + out.String())
}

// fileLines returns the distribution of the files' lines.
func (s source) fileLines() string {
	var lines []int
	for _, f := range s.files {
		lines = append(lines, f.lines)
	}
	return distribution(lines)
}

// functionLines returns the distribution of the functions' lines.
func (s source) functionLines() string {
	var lines []int
	s.functions(func(_ file, function *ast.FuncDecl) {
		lines = append(lines, s.set.Position(function.End()).Line-s.set.Position(function.Pos()).Line+1)
	})
	return distribution(lines)
}

// distribution returns the median, 90th percentile and maximum of values.
func distribution(values []int) string {
	if len(values) == 0 {
		return "-"
	}
	slices.Sort(values)
	return fmt.Sprintf("%d / %d / %d", values[len(values)/2], values[len(values)*9/10], values[len(values)-1])
}

// total adds the counts of all directories.
func total(counts map[string]commentCount) commentCount {
	var out commentCount
	for _, c := range counts {
		out.all += c.all
		out.stative += c.stative
	}
	return out
}
