package words

import (
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"go/types"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// foreign lists the places where the product recognizes a text by its words. Programs go
// by reason codes for nadra's own texts, so all of these are texts of others.
var foreign = []struct {
	file    string
	pattern string // the literal, or the expression whose value is the pattern
	whose   string
}{
	{"internal/desk/inspect/foreign.go", "t.text", "texts of kubelet, kernel, plugins and their libraries: the tables of this file"},
	{"pkg/attachment/json.go", "after object key", "encoding/json"},
	{"pkg/attachment/json.go", "after object key:value pair", "encoding/json"},
	{"pkg/attachment/json.go", "after array element", "encoding/json"},
	{"pkg/attachment/json.go", "looking for beginning of object key string", "encoding/json"},
	{"pkg/attachment/json.go", "unexpected end", "encoding/json"},
	{"internal/desk/bundle/logs.go", `^((?:created by )?[A-Za-z0-9_.*/()-]+)\([0-9a-fx{}, .?]*\)$`, "Go's runtime, about a panic"},
	{"internal/kube/ratelimit.go", "would exceed context deadline", "golang.org/x/time/rate, in client-go's rate limiter"},
	{"internal/controller/maketemplates.go", "exceeded quota", "the API server's ResourceQuota"},
	{"pkg/cniexec/ask.go", "not implemented", "CNI plugins without STATUS or CHECK"},
	{"pkg/cniexec/ask.go", "not supported", "CNI plugins without STATUS or CHECK"},
	{"pkg/cniexec/ask.go", "unknown CNI_COMMAND", "containernetworking/cni, pkg/skel"},
	{"pkg/cniexec/ask.go", "strings.ToLower(verb)", "the verb in a CNI plugin's message"},
	{"pkg/translate/element.go", "unexpected end", "encoding/json"},
	{"pkg/translate/file.go", `^yaml: line (\d+): `, "go.yaml.in/yaml"},
}

// names lists expressions whose values are names, and not words of a message.
var names = []struct{ file, pattern string }{
	{"internal/desk/doctor/readmultus.go", "o"},
	{"internal/desk/doctor/workloads.go", "k.deployment"},
	{"internal/desk/report/baseline.go", "n"},
	{"pkg/admission/refusal.go", "at"},
	{"pkg/pools/match.go", "want"},
	{"pkg/translate/runtimeclass.go", "part"},
}

// match is a place where a program recognizes a text.
type match struct{ file, pattern string }

// TestNoSentenceIsMatched checks that the product recognizes none of its own texts by
// their words.
func TestNoSentenceIsMatched(t *testing.T) {
	allowed := map[match]bool{}
	for _, f := range foreign {
		allowed[match{f.file, f.pattern}] = true
		if f.whose == "" {
			t.Errorf("%s: %q is nobody's", f.file, f.pattern)
		}
	}
	for _, n := range names {
		allowed[match{n.file, n.pattern}] = true
	}
	found := map[match]bool{}
	for _, m := range productMatches(t) {
		found[m] = true
		if !allowed[m] {
			t.Errorf("%s recognizes a text by %q: go by the reason code (pkg/api/reason) if the text is nadra's, else add it to the list", m.file, m.pattern)
		}
	}
	for m := range allowed {
		if !found[m] {
			t.Errorf("%s does not recognize a text by %q any more: remove it from the list", m.file, m.pattern)
		}
	}
}

// TestForeignTextsAreForeign checks that no text of internal/desk/inspect/foreign.go is part of
// another text of the product.
func TestForeignTextsAreForeign(t *testing.T) {
	texts := map[string][]string{}
	var own []string
	forEachPackage(t, func(dir string, files map[string]*ast.File, _ map[string]string) {
		for name, file := range files {
			ast.Inspect(file, func(n ast.Node) bool {
				if text, ok := literal(n); ok {
					if name == "internal/desk/inspect/foreign.go" {
						own = append(own, text)
					} else {
						texts[text] = append(texts[text], name)
					}
				}
				return true
			})
		}
	})
	checked := 0
	for _, text := range own {
		if !sentence.MatchString(text) || strings.ContainsAny(text, ",.") { // remedies and sources
			continue
		}
		checked++
		for other, files := range texts {
			if strings.Contains(other, text) {
				t.Errorf("internal/desk/inspect/foreign.go: %q is in a text of %v", text, files)
			}
		}
	}
	if checked < 5 {
		t.Errorf("checked only %d texts", checked)
	}
}

// productMatches returns the places in the product where a text is recognized by words.
func productMatches(t *testing.T) []match {
	t.Helper()
	var all []match
	forEachPackage(t, func(_ string, files map[string]*ast.File, constants map[string]string) {
		for name, file := range files {
			for _, pattern := range patterns(file, constants) {
				all = append(all, match{name, pattern})
			}
		}
	})
	if len(all) < 10 {
		t.Errorf("found only %d places", len(all))
	}
	return all
}

// forEachPackage calls visit with the parsed files of each package of the product, by
// their paths, and with the package's string constants.
func forEachPackage(t *testing.T, visit func(dir string, files map[string]*ast.File, constants map[string]string)) {
	t.Helper()
	root := filepath.Join("..", "..")
	dirs := map[string]map[string]*ast.File{}
	for _, top := range []string{"cmd", "internal", "pkg"} {
		err := filepath.WalkDir(filepath.Join(root, top), func(path string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			name, err := filepath.Rel(root, path)
			dir := filepath.Dir(name)
			if dirs[dir] == nil {
				dirs[dir] = map[string]*ast.File{}
			}
			dirs[dir][filepath.ToSlash(name)] = file
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for dir, files := range dirs {
		constants := map[string]string{}
		for _, file := range files {
			addConstants(file, constants)
		}
		visit(dir, files, constants)
	}
}

// addConstants adds the string constants of a file by their names.
func addConstants(file *ast.File, constants map[string]string) {
	ast.Inspect(file, func(n ast.Node) bool {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return true
		}
		for _, spec := range decl.Specs {
			if s, ok := spec.(*ast.ValueSpec); ok {
				for i, id := range s.Names {
					if i < len(s.Values) {
						if text, ok := literal(s.Values[i]); ok {
							constants[id.Name] = text
						}
					}
				}
			}
		}
		return true
	})
}

var (
	// recognizing lists the functions of packages strings and bytes that look for a text.
	recognizing = []string{
		"Contains", "Count", "Cut", "CutPrefix", "CutSuffix", "EqualFold", "HasPrefix", "HasSuffix", "Index", "LastIndex",
		"Split", "SplitN", "TrimPrefix", "TrimSuffix",
	}
	// searching lists those that find words in the middle of a message.
	searching = []string{"Contains", "Index", "LastIndex"}
	sentence  = regexp.MustCompile(`\pL{2,}[:,]? \pL{2,}`)
)

// patterns returns the texts with two or more words that a file recognizes, and the
// expressions that it searches for.
func patterns(file *ast.File, constants map[string]string) []string {
	var all []string
	compared := func(e ast.Expr) { // a constant may be the value of an enumeration
		if text, ok := literal(e); ok && sentence.MatchString(text) {
			all = append(all, text)
		}
	}
	add := func(e ast.Expr, dynamic bool) {
		text, ok := literal(e)
		if id, isName := e.(*ast.Ident); isName && !ok {
			text, ok = constants[id.Name]
		}
		switch {
		case ok && sentence.MatchString(text):
			all = append(all, text)
		case !ok && dynamic:
			if _, isSum := e.(*ast.BinaryExpr); !isSum {
				all = append(all, types.ExprString(e))
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.CallExpr:
			pkg, name := callee(n)
			switch {
			case (pkg == "strings" || pkg == "bytes") && slices.Contains(recognizing, name):
				add(n.Args[1], pkg == "strings" && slices.Contains(searching, name))
			case pkg == "regexp":
				add(n.Args[0], false)
			}
		case *ast.BinaryExpr:
			if n.Op == token.EQL || n.Op == token.NEQ {
				compared(n.X)
				compared(n.Y)
			}
		case *ast.CaseClause:
			for _, e := range n.List {
				compared(e)
			}
		}
		return true
	})
	return all
}

// callee returns package and name of a call's function.
func callee(call *ast.CallExpr) (pkg, name string) {
	if f, ok := call.Fun.(*ast.SelectorExpr); ok {
		if x, ok := f.X.(*ast.Ident); ok {
			return x.Name, f.Sel.Name
		}
	}
	return "", ""
}

// literal returns the value of a string literal.
func literal(n ast.Node) (string, bool) {
	if lit, ok := n.(*ast.BasicLit); ok && lit.Kind == token.STRING {
		return constant.StringVal(constant.MakeFromLiteral(lit.Value, lit.Kind, 0)), true
	}
	return "", false
}

func TestPatterns(t *testing.T) {
	const source = `package p
const hint = "has been deleted"
var re = regexp.MustCompile("is not (here|there)")
func f() {
	_ = strings.Contains(message, "is gone")
	_ = strings.Contains(message, "gone")
	_ = strings.HasPrefix(err.Error(), hint)
	_, _, _ = strings.Cut(s, ": ")
	for _, s := range texts { _ = strings.Contains(message, s) }
	_ = strings.HasPrefix(name, prefix)
	_ = strings.Contains(list, name+"/")
	if message == "try again" {}
	switch message { case "all is well": }
	log("not a match")
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	constants := map[string]string{}
	addConstants(file, constants)
	got := patterns(file, constants)
	want := []string{"is not (here|there)", "is gone", "has been deleted", "s", "try again", "all is well"}
	if !slices.Equal(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}
