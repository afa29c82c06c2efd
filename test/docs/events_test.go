package docs

import (
	"fmt"
	"go/ast"
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

// folder has the source of one package, without its tests.
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

// reasons returns the reasons of the events that the package sends, without "Event", and the
// places at which the reason is not a constant of pkg/api/reason.
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
					return true // not an event, or the function's caller determines the reason
				}
				values, all := f.values(function, reason)
				if !all || len(values) == 0 {
					unclear = append(unclear, fmt.Sprintf("%s: %s", name, function.Name.Name))
				}
				known = append(known, values...)
				return true
			})
		}
	}
	return known, unclear
}

// reasonOf returns the reason in a call that sends an event, or nil. It knows client-go's two
// recorders, methods `event`, and the methods of the driver's recorder, which is a field `events` everywhere.
func reasonOf(call *ast.CallExpr) ast.Expr {
	method, ok := call.Fun.(*ast.SelectorExpr)
	if !ok {
		return nil
	}
	args := call.Args
	switch name := method.Sel.Name; {
	case (name == "Event" || name == "event") && len(args) == 4:
		return args[2] // object, type, reason, message
	case name == "Eventf" && len(args) >= 6:
		return args[3] // object, related, type, reason, action, note
	case name == "Eventf" && len(args) >= 4:
		return args[2] // object, type, reason, format
	case name == "AnnotatedEventf" && len(args) >= 5:
		return args[3] // object, annotations, type, reason, format
	case !isEvents(method.X):
		return nil
	case name == "Node" && len(args) == 3:
		return args[1] // type, reason, message
	case name == "Pod" && len(args) == 4:
		return args[2] // pod, type, reason, message
	case name == "Network" && len(args) == 5:
		return args[3] // network, uid, type, reason, message
	}
	return nil
}

// isEvents reports whether an expression is a field `events`.
func isEvents(e ast.Expr) bool {
	field, ok := e.(*ast.SelectorExpr)
	return ok && field.Sel.Name == "events"
}

// isParameter reports whether an expression is a parameter of a function.
func isParameter(function *ast.FuncDecl, e ast.Expr) bool {
	name, ok := e.(*ast.Ident)
	return ok && slices.ContainsFunc(function.Type.Params.List, func(p *ast.Field) bool {
		return slices.ContainsFunc(p.Names, func(n *ast.Ident) bool { return n.Name == name.Name })
	})
}

// values returns the values that an expression can have: a constant reason.Event…, what the
// function assigns to a variable, or what the composite literals of a struct have in a field.
// all is false if a value is anything else.
func (f folder) values(function *ast.FuncDecl, e ast.Expr) (values []string, all bool) {
	all = true
	add := func(e ast.Expr) {
		more, known := f.values(function, e)
		values, all = append(values, more...), all && known
	}
	switch e := e.(type) {
	case *ast.Ident:
		ast.Inspect(function, func(n ast.Node) bool {
			assign, ok := n.(*ast.AssignStmt)
			if !ok {
				return true
			}
			for i, left := range assign.Lhs {
				if name, ok := left.(*ast.Ident); !ok || name.Name != e.Name {
					continue
				}
				if all = all && len(assign.Lhs) == len(assign.Rhs); all {
					add(assign.Rhs[i])
				}
			}
			return true
		})
		return values, all && len(values) > 0
	case *ast.SelectorExpr:
		if of, ok := e.X.(*ast.Ident); ok && of.Name == "reason" {
			if name, isEvent := strings.CutPrefix(e.Sel.Name, "Event"); isEvent {
				return []string{name}, true
			}
			return nil, false
		}
		for _, element := range f.fieldValues(e.Sel.Name) {
			add(element)
		}
		return values, all && len(values) > 0
	}
	return nil, false
}

// fieldValues returns what the composite literals of the package's structs have in the field
// of this name.
func (f folder) fieldValues(field string) []ast.Expr {
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
	var all []ast.Expr
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
					all = append(all, element)
				}
			} else if key, ok := keyed.Key.(*ast.Ident); ok && key.Name == field {
				all = append(all, keyed.Value)
			}
		}
	})
	return all
}

// inspect visits all nodes of the package.
func (f folder) inspect(visit func(ast.Node)) {
	for _, file := range f.files {
		ast.Inspect(file, func(n ast.Node) bool {
			visit(n)
			return true
		})
	}
}

const eventsPage = "docs/troubleshooting/events.md"

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
			t.Errorf("%s sends an event whose reason this test cannot see: use a constant reason.Event…", place)
		}
	}
	return sent
}

// A heading of one word in CamelCase is an event's.
var eventHeading = regexp.MustCompile(`^([A-Z][a-z]+){2,}$`)

// TestEventsAreExplained checks that docs/troubleshooting/events.md has a section for every event that
// nadra sends, and for no other.
func TestEventsAreExplained(t *testing.T) {
	sent := allEvents(t)
	if len(sent) < 18 {
		t.Errorf("found only %d events: %v", len(sent), sent)
	}
	explained := map[string]bool{}
	for _, s := range pages(t)[eventsPage].sections {
		if eventHeading.MatchString(s.heading) {
			explained[s.heading] = true
			if strings.TrimSpace(s.text) == "" {
				t.Errorf("%s: section %s is empty", eventsPage, s.heading)
			}
		}
	}
	for reason := range sent {
		if !explained[reason] {
			t.Errorf("%s has no section %q", eventsPage, reason)
		}
	}
	for reason := range explained {
		if !sent[reason] {
			t.Errorf("%s explains %s, which nothing sends", eventsPage, reason)
		}
	}
}

// TestReasons finds the reasons in a source, and every place that hides one.
func TestReasons(t *testing.T) {
	const source = `package p
const eventX = "X"
type note struct { bad bool; reason, text string }
func (d *d) event(pod p, kind, reason, message string) { d.events.Event(pod, kind, reason, message) }
func (d *d) seen() {
	d.event(pod, warning, reason.EventA, "x")
	eventReason, message := reason.EventB, "y"
	if z { eventReason = reason.EventC }
	d.events.Event(node, normal, eventReason, message)
	n := &note{true, reason.EventD, "…"}
	m := note{text: "…", reason: reason.EventE}
	d.events.Eventf(nad, nil, kind, n.reason, "Keep", "%s", m.text)
	d.events.Eventf(nad, kind, reason.EventF, "%s")
	d.events.Node(kind, reason.EventG, message)
	d.events.Pod(pod, kind, reason.EventH, message)
	d.others.Pod(pod, kind, reason.EventK, message)
	d.events.Network(network, uid, kind, reason.EventI, message)
	d.events.AnnotatedEventf(nad, nil, kind, reason.EventJ, "%s")
}
func (d *d) literal() { d.events.Event(node, normal, "X", message) }
func (d *d) own() { d.events.Node(normal, eventX, message) }
func (d *d) called() { d.events.Pod(pod, normal, other(), message) }
func (d *d) code() { d.events.Pod(pod, normal, reason.PluginFailed, message) }
func (d *d) sometimes() { r := reason.EventA; if z { r = "X" }; d.events.Node(normal, r, message) }
func (d *d) returned() { r, m := other(); d.events.Node(normal, r, m) }`
	file, err := parser.ParseFile(token.NewFileSet(), "p.go", source, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	f := folder{files: map[string]*ast.File{"p.go": file}}
	known, unclear := f.reasons()
	slices.Sort(known)
	if got := strings.Join(slices.Compact(known), ""); got != "ABCDEFGHIJ" {
		t.Errorf("known: %v", known)
	}
	if want := []string{"p.go: literal", "p.go: own", "p.go: called", "p.go: code", "p.go: sometimes", "p.go: returned"}; !slices.Equal(unclear, want) {
		t.Errorf("unclear: %v", unclear)
	}
}
