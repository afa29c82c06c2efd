package docs

import (
	"fmt"
	"go/ast"
	"go/constant"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// A folder is what the sources of one package say, without its tests.
type folder struct {
	path  string
	files map[string]*ast.File // by path from the project's root
}

// folders parses the product's packages.
func folders(t *testing.T) []folder {
	t.Helper()
	byPath := map[string]map[string]*ast.File{}
	for _, top := range []string{"cmd", "internal", "pkg"} {
		err := fs.WalkDir(os.DirFS(root), top, func(name string, _ fs.DirEntry, err error) error {
			if err != nil || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
				return err
			}
			file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, name), nil, parser.SkipObjectResolution)
			if err != nil {
				return err
			}
			dir := filepath.ToSlash(filepath.Dir(name))
			if byPath[dir] == nil {
				byPath[dir] = map[string]*ast.File{}
			}
			byPath[dir][name] = file
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	var all []folder
	for dir, files := range byPath {
		all = append(all, folder{path: dir, files: files})
	}
	return all
}

// reasons are those of the events that the package sends, and the places of
// which it cannot be seen.
func (f folder) reasons() (known, unclear []string) {
	for name, file := range f.files {
		for _, decl := range file.Decls {
			function, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			ast.Inspect(function, func(n ast.Node) bool {
				call, ok := n.(*ast.CallExpr)
				if !ok {
					return true
				}
				reason := reasonOf(call)
				if reason == nil || isParameter(function, reason) {
					return true // no event, or one of whoever calls the function
				}
				values := f.values(function, reason)
				if len(values) == 0 {
					unclear = append(unclear, fmt.Sprintf("%s: %s", name, function.Name.Name))
				}
				known = append(known, values...)
				return true
			})
		}
	}
	return known, unclear
}

// reasonOf is the reason in a call that sends an event: client-go's two
// recorders, and the driver's method `event`.
func reasonOf(call *ast.CallExpr) ast.Expr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	switch {
	case (method.Sel.Name == "Event" || method.Sel.Name == "event") && len(call.Args) == 4:
		return call.Args[2] // object, type, reason, message
	case method.Sel.Name == "Eventf" && len(call.Args) >= 6:
		return call.Args[3] // object, related, type, reason, action, note
	}
	return nil
}

func isParameter(function *ast.FuncDecl, e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && slices.ContainsFunc(function.Type.Params.List, func(p *ast.Field) bool {
		return slices.ContainsFunc(p.Names, func(n *ast.Ident) bool { return n.Name == name.Name })
	})
}

// values are what an expression can be: a literal, a constant of the package, what
// the function assigns to a variable, or what any literal of a struct has in a
// field.
func (f folder) values(function *ast.FuncDecl, e ast.Expr) []string {
	switch e := e.(type) {
	case *ast.BasicLit:
		return []string{constant.StringVal(constant.MakeFromLiteral(e.Value, e.Kind, 0))}
	case *ast.Ident:
		if value := f.constant(e.Name); value != nil {
			return f.values(function, value)
		}
		var all []string
		ast.Inspect(function, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok || len(assign.Lhs) != len(assign.Rhs) {
				return true
			}
			for i, left := range assign.Lhs {
				if name, ok := left.(*ast.Ident); ok && name.Name == e.Name {
					all = append(all, f.values(function, assign.Rhs[i])...)
				}
			}
			return true
		})
		return all
	case *ast.SelectorExpr:
		return f.fieldValues(function, e.Sel.Name)
	}
	return nil
}

func (f folder) constant(name string) ast.Expr {
	var found ast.Expr
	f.inspect(func(n ast.Node) {
		decl, ok := n.(*ast.GenDecl)
		if !ok || decl.Tok != token.CONST {
			return
		}
		for _, spec := range decl.Specs {
			values := spec.(*ast.ValueSpec) //nolint:forcetypeassert // constants have no others
			for i, id := range values.Names {
				if id.Name == name && i < len(values.Values) {
					found = values.Values[i]
				}
			}
		}
	})
	return found
}

// fieldValues are what composite literals of the package's structs have in the
// field of this name.
func (f folder) fieldValues(function *ast.FuncDecl, field string) []string {
	index := map[string]int{} // of the field, by type
	f.inspect(func(n ast.Node) {
		spec, ok := n.(*ast.TypeSpec)
		if !ok {
			return
		}
		fields, ok := spec.Type.(*ast.StructType)
		if !ok {
			return
		}
		i := 0
		for _, group := range fields.Fields.List {
			for _, name := range group.Names {
				if name.Name == field {
					index[spec.Name.Name] = i
				}
				i++
			}
		}
	})
	var all []string
	f.inspect(func(n ast.Node) {
		literal, ok := n.(*ast.CompositeLit)
		if !ok {
			return
		}
		name, ok := literal.Type.(*ast.Ident)
		if !ok {
			return
		}
		at, ok := index[name.Name]
		if !ok {
			return
		}
		for i, element := range literal.Elts {
			if keyed, ok := element.(*ast.KeyValueExpr); !ok {
				if i == at {
					all = append(all, f.values(function, element)...)
				}
			} else if key, ok := keyed.Key.(*ast.Ident); ok && key.Name == field {
				all = append(all, f.values(function, keyed.Value)...)
			}
		}
	})
	return all
}

func (f folder) inspect(visit func(ast.Node)) {
	for _, file := range f.files {
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

const troubleshooting = "docs/troubleshooting.md"

// driverEvents returns the reasons in the driver's package of Events that the driver
// sends.
func driverEvents(t *testing.T) map[string]bool {
	t.Helper()
	const declared = "pkg/driver/internal/events/events.go"
	sent := map[string]bool{}
	used := regexp.MustCompile(`\bevents\.([A-Z]\w+)\b`)
	files := sources(t, []string{"pkg/driver"}, ".go")
	for name, text := range files {
		if !strings.HasSuffix(name, "_test.go") {
			for _, m := range used.FindAllStringSubmatch(text, -1) {
				sent[m[1]] = true
			}
		}
	}
	out := map[string]bool{}
	for _, m := range regexp.MustCompile(`(?m)^\t(\w+) += "(\w+)"$`).FindAllStringSubmatch(files[declared], -1) {
		if m[1] != m[2] || !sent[m[1]] {
			t.Errorf("%s: %s = %q: the two must be the same, and the driver must send it", declared, m[1], m[2])
		}
		out[m[2]] = true
	}
	return out
}

// TestEventReasonsAreShared checks that pkg/api/reason, which other programs use, has the
// reason of every event that nadra sends, and no other.
func TestEventReasonsAreShared(t *testing.T) {
	shared := map[string]bool{}
	const declared = "pkg/api/reason/kubernetes.go"
	for _, m := range regexp.MustCompile(`(?m)^\tEvent(\w+) += "(\w+)"$`).FindAllStringSubmatch(sources(t, []string{"pkg/api/reason"}, ".go")[declared], -1) {
		if m[1] != m[2] {
			t.Errorf("%s: Event%s = %q: the two must be the same", declared, m[1], m[2])
		}
		shared[m[2]] = true
	}
	sent := allEvents(t)
	for reason := range sent {
		if !shared[reason] {
			t.Errorf("%s has no Event%s, which nadra sends", declared, reason)
		}
	}
	for reason := range shared {
		if !sent[reason] {
			t.Errorf("%s has Event%s, which nadra does not send", declared, reason)
		}
	}
}

// allEvents returns the reasons of all events that nadra sends.
func allEvents(t *testing.T) map[string]bool {
	t.Helper()
	sent := map[string]bool{}
	for _, f := range folders(t) {
		known, unclear := f.reasons()
		for _, reason := range known {
			sent[reason] = true
		}
		for _, place := range unclear {
			t.Errorf("%s sends an event whose reason this test cannot see: make it a constant", place)
		}
	}
	for reason := range driverEvents(t) {
		sent[reason] = true
	}
	return sent
}

// A heading of one word in CamelCase is an event's.
var eventHeading = regexp.MustCompile(`^([A-Z][a-z]+){2,}$`)

// TestEventsAreExplained checks that troubleshooting.md has a section for every event that
// nadra sends, and for no other.
func TestEventsAreExplained(t *testing.T) {
	sent := allEvents(t)
	if len(sent) < 18 {
		t.Errorf("found only %d events: %v", len(sent), sent)
	}
	explained := map[string]bool{}
	for _, s := range pages(t)[troubleshooting].sections {
		if eventHeading.MatchString(s.heading) {
			explained[s.heading] = true
			if strings.TrimSpace(s.text) == "" {
				t.Errorf("%s: section %s is empty", troubleshooting, s.heading)
			}
		}
	}
	for reason := range sent {
		if !explained[reason] {
			t.Errorf("%s has no section %q", troubleshooting, reason)
		}
	}
	for reason := range explained {
		if !sent[reason] {
			t.Errorf("%s explains %s, which nothing sends", troubleshooting, reason)
		}
	}
}

func TestReasons(t *testing.T) {
	const source = `package p
const eventA, eventB = "A", "B"
type note struct { bad bool; reason, text string }
func (d *d) event(pod p, kind, reason, message string) { d.events.Event(pod, kind, reason, message) }
func (d *d) f() {
	d.event(pod, warning, eventA, "x")
	reason, message := eventB, "y"
	if z { reason = "C" }
	d.events.Event(node, normal, reason, message)
	n := &note{true, "D", "…"}
	m := note{text: "…", reason: "E"}
	d.events.Eventf(nad, nil, kind, n.reason, "Keep", "%s", m.text)
	d.events.Event(node, normal, other(), message)
}`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	known, unclear := folder{files: map[string]*ast.File{"p.go": file}}.reasons()
	slices.Sort(known)
	if got := strings.Join(known, ""); got != "ABCDE" {
		t.Errorf("known: %v", known)
	}
	if len(unclear) != 1 {
		t.Errorf("unclear: %v", unclear)
	}
}
