package words

import (
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"text/tabwriter"
)

// maxStative is the limit in percent for function comments that describe a state.
const maxStative = 6

// TestFunctionComments holds the share of function comments that begin "X is …", "X has …" or
// "X says …" and not with what the function does. If there are too many, it prints them for
// each directory.
func TestFunctionComments(t *testing.T) {
	s := readSource(t, everything)
	places := map[string][]string{}
	counts := s.comments(func(f file, function *ast.FuncDecl) {
		first, _, _ := strings.Cut(function.Doc.Text(), "\n")
		places[f.dir] = append(places[f.dir], s.position(function)+": "+first)
	})
	sum := total(counts)
	if sum.share() < maxStative {
		return
	}
	var out strings.Builder
	w := tabwriter.NewWriter(&out, 0, 0, 2, ' ', 0)
	for _, dir := range slices.Sorted(maps.Keys(places)) {
		fmt.Fprintf(w, "%s\t%d of %d\t%.0f %%\n", dir, counts[dir].stative, counts[dir].all, counts[dir].share())
	}
	if err := w.Flush(); err != nil {
		t.Fatal(err)
	}
	t.Errorf("%d of %d function comments (%.1f %%) begin \"X is/are/has/says/tells/knows …\", less than %d %% may: "+
		"begin with a verb that says what the function does (returns, reports, writes, waits, …)\n%s",
		sum.stative, sum.all, sum.share(), maxStative, out.String())
	for _, dir := range slices.Sorted(maps.Keys(places)) {
		t.Logf("%s\n%s", dir, strings.Join(places[dir], "\n"))
	}
}

// TestStativeComments checks the judgement on single comments.
func TestStativeComments(t *testing.T) {
	for comment, want := range map[string]bool{
		"path is the file's.": true, "Error\nhas a code": true, "what there is": false, "it says why": true, "list returns all": false,
		"isHost reports whether": false, "tell": false, "": false, "knows says": true,
	} {
		if isStative(comment) != want {
			t.Errorf("%q: want %v", comment, want)
		}
	}
}

// fileName matches a Go file in a comment, without a path.
var fileName = regexp.MustCompile(`(?:^|[\s(,])([\w.-]+\.go)\b`)

// TestPackageComments checks that each package has a comment, and that it names no file that does not exist.
func TestPackageComments(t *testing.T) {
	byDir := readSource(t, everything).byDir()
	for _, dir := range slices.Sorted(maps.Keys(byDir)) {
		var doc strings.Builder
		for _, f := range byDir[dir] {
			if f.ast.Doc != nil {
				doc.WriteString(f.ast.Doc.Text())
			}
		}
		if doc.Len() == 0 {
			t.Errorf("%s has no package comment", dir)
		}
		for _, m := range fileName.FindAllStringSubmatch(doc.String(), -1) {
			if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(dir), m[1])); err != nil {
				t.Errorf("%s: the package comment names %s: %v", dir, m[1], err)
			}
		}
	}
}

// logKeys are the keys of structured log messages. Use one of them before adding another: one
// word for one concept. Objects are klog.KObj or klog.KRef.
var logKeys = []string{
	"action", "address", "claim", "claimUID", "class", "configMap", "configuration",
	"devices", "dir", "duration", "err", "expires", "features", "file", "from", "hookBudget",
	"interface", "kind", "label", "name", "network", "networks", "node", "nodes", "owned", "pod",
	"podUID", "pool", "pools", "pprof", "profile", "reason", "request", "retryAfter", "sandbox", "sandboxes", "secret",
	"since", "stack", "template", "timeout", "to",
}

// loggers maps functions and methods of klog and logr to the index of their first key.
var loggers = map[string]int{"InfoS": 1, "ErrorS": 2, "Info": 1, "Error": 2, "WithValues": 0, "LoggerWithValues": 1}

// TestLogKeys holds the keys of log messages to one list. It prints unused keys with -v.
func TestLogKeys(t *testing.T) {
	s := readSource(t, product)
	used := map[string]bool{}
	for _, f := range s.files {
		if !logs(f.ast) {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			for _, key := range keysOf(call) {
				text, err := keyLiteral(key)
				switch {
				case err != nil:
					t.Errorf("%s: a log key that is not a string literal", s.position(key))
				case !slices.Contains(logKeys, text):
					t.Errorf("%s: log key %q is not in the list of test/words: use one of %s, or add it", s.position(key), text, strings.Join(logKeys, ", "))
				}
				used[text] = true
			}
			return true
		})
	}
	for _, key := range logKeys {
		if !used[key] {
			t.Logf("no log message has the key %q", key)
		}
	}
}

// logs reports whether a file imports klog, logr, or a package whose functions return such a
// logger.
func logs(f *ast.File) bool {
	return slices.ContainsFunc(f.Imports, func(i *ast.ImportSpec) bool {
		name := path.Base(strings.Trim(i.Path.Value, `"`))
		return strings.Contains(i.Path.Value, "k8s.io/klog") || strings.Contains(i.Path.Value, "go-logr") || name == "operations" || name == "log"
	})
}

// keysOf returns the keys of a call of a logger, or nil for another call.
func keysOf(call *ast.CallExpr) []ast.Expr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	first, ok := loggers[method.Sel.Name]
	if !ok || call.Ellipsis != token.NoPos {
		return nil
	}
	if isIdent(method.X, "http") { // http.Error
		return nil
	}
	var keys []ast.Expr
	for i := first; i < len(call.Args); i += 2 {
		keys = append(keys, call.Args[i])
	}
	return keys
}

// keyLiteral returns the value of a string literal.
func keyLiteral(key ast.Expr) (string, error) {
	basic, ok := key.(*ast.BasicLit)
	if !ok {
		return "", strconv.ErrSyntax
	}
	return strconv.Unquote(basic.Value)
}

// isIdent reports whether an expression is an identifier with a name.
func isIdent(x ast.Expr, name string) bool {
	id, ok := x.(*ast.Ident)
	return ok && id.Name == name
}
