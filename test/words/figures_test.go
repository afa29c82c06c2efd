package words

import (
	"cmp"
	"fmt"
	"go/ast"
	"maps"
	"slices"
	"strings"
	"testing"
	"text/tabwriter"
)

// TestFigures prints the sizes of files, functions and types of the product, without
// generated code and tests (make figures). TestFunctionComments and TestTypes limit two of
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
