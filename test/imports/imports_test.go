// Package imports compares the import map of the product with a recorded one and
// holds pure packages to their rule.
package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/nadra-dev/nadra/test/golden"
)

const module = "github.com/nadra-dev/nadra/"

// pure lists the packages that decide and do not act: they have no context, client,
// clock, logger, file or process. They import no other package of the product than
// each other, and mixed ones.
var pure = []string{
	"internal/desk/document", "internal/desk/report", "internal/gate", "internal/probe", "internal/words", "internal/version", "internal/yamledit",
	"pkg/admission", "pkg/api/reason", "pkg/api/v1alpha1", "pkg/attachment", "pkg/pools", "pkg/translate",
}

// mixed lists packages in which only the named files act. The others decide, and are held to the rule for pure packages.
var mixed = map[string][]string{
	"internal/desk/bundle":   {"list.go", "live.go", "own.go", "readlogs.go"},
	"internal/desk/canary":   {"create.go", "exec.go", "read.go", "run.go"},
	"internal/desk/cleanup":  {"deleteobjects.go", "free.go", "nodes.go", "readobjects.go", "run.go", "uninstall.go", "uninstallnodes.go"},
	"internal/desk/doctor":   {"live.go", "nodes.go", "policies.go", "probe.go", "probepod.go", "readers.go", "readmultus.go", "readnadra.go", "whereabouts.go", "workloads.go"},
	"internal/desk/inspect":  {"live.go", "pod.go", "watch.go"},
	"internal/installation":  {"find.go", "remover.go"},
	"internal/desk/snapshot": {"take.go"},
	"internal/nodecmd": {
		"addresses.go", "canary.go", "cleanup.go", "cni.go", "free.go", "host.go", "leases.go", "links.go", "nri.go", "ping.go", "podlink.go", "podnet.go", "pods.go",
		"probe.go", "process.go", "sandboxes.go", "uninstall.go", "vfs.go",
	},
	"internal/desk/upgrade": {
		"await.go", "checkcapacity.go", "drain.go", "handover.go", "journal.go", "keepmultusoff.go", "lock.go", "namespaces.go", "nodes.go",
		"read.go", "remove.go", "rollback.go", "rollouts.go", "run.go", "runner.go", "steps.go", "store.go", "workload.go",
	},
}

// types lists the packages that act, and whose types may be used by those that decide.
var types = []string{"pkg/inventory"}

// acts lists the imports that make a package impure. A path that ends in a slash
// stands for everything below it.
var acts = []string{
	"context", "log", "log/slog", "math/rand", "math/rand/v2", "net/http", "os", "os/exec",
	"k8s.io/client-go/", "k8s.io/klog/v2", "sigs.k8s.io/controller-runtime/",
}

// clocks lists the functions of package time that read the clock or wait.
var clocks = []string{"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until"}

// desk is the tree of what only `kubectl nadra` runs.
const desk = module + "internal/desk"

// linked lists what a package must not depend on, even through other packages.
var linked = []struct{ of, not, why string }{
	{"cmd/nadra-gate", "k8s.io", "the gate runs at every start of a container and must stay small"},
	{"cmd/kubectl-nadra", module + "internal/nodecmd", "only programs on a node look at it and change it"},
	{"cmd/nadra-node", desk, "what runs in the cluster does not know the desk"},
	{"cmd/nadra-controller", desk, "what runs in the cluster does not know the desk"},
	{"pkg/cniexec", "k8s.io/client-go", "the library runs plugins without Kubernetes"},
	{"pkg/checkpoint", "k8s.io/client-go", "small programs read records, too"},
	{"internal/probe", "k8s.io", "the node and the command line both read what it decodes"},
	{"internal/metrics", "k8s.io", "it serves the node and the controller and knows no objects"},
	{"internal/nodecmd", "k8s.io/client-go", "it acts on the node, or in a pod without rights"},
}

// linkedByGate lists all packages that the gate may link, besides the standard library and
// golang.org/x/sys. Others below pkg bring Kubernetes libraries along.
var linkedByGate = []string{"cmd/nadra-gate", "internal/gate", "pkg/api/reason"}

// starts lists the packages that may start processes.
var starts = []string{"pkg/cniexec"}

// nowhere lists what no package of the product may depend on.
var nowhere = map[string]string{
	"k8s.io/kubernetes":                "it is no library and would bring everything along",
	"github.com/containerd/containerd": "nadra speaks NRI to any runtime",
	module + "test":                    "the product does not know its tests",
}

// pkg is one package of the product, or one that is linked into it.
type pkg struct {
	ImportPath string
	Standard   bool
	Dir        string
	GoFiles    []string
	Imports    []string
	ImportMap  map[string]string
}

// graph maps import paths to packages.
type graph map[string]pkg

// readGraph lists all packages with one process.
func readGraph(t *testing.T) graph {
	t.Helper()
	watchSources(t)
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Standard,Dir,GoFiles,Imports,ImportMap",
		module+"pkg/...", module+"internal/...", module+"cmd/...").Output()
	if err != nil {
		t.Fatalf("listing the packages of %s: %v", module, err)
	}
	g := graph{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		switch err := d.Decode(&p); {
		case err == io.EOF:
			return g
		case err != nil:
			t.Fatalf("reading the list of packages: %v", err)
		}
		for i, path := range p.Imports {
			p.Imports[i] = cmp.Or(p.ImportMap[path], path) // a vendored package of the standard library
		}
		g[p.ImportPath] = p
	}
}

// watchSources makes `go test` run this package again when a source file changes. A
// cached result lasts until a file changes that the test itself has opened, and
// another process reads these files.
func watchSources(t *testing.T) {
	t.Helper()
	_, err := os.Stat(filepath.Join("..", "..", "go.mod"))
	for _, folder := range []string{"cmd", "internal", "pkg"} {
		err = errors.Join(err, filepath.WalkDir(filepath.Join("..", "..", folder), func(_ string, _ fs.DirEntry, err error) error { return err }))
	}
	if err != nil {
		t.Fatal(err)
	}
}

// own returns the import paths of the product's packages in order.
func (g graph) own() []string {
	return slices.DeleteFunc(slices.Sorted(maps.Keys(g)), func(path string) bool { return !strings.HasPrefix(path, module) })
}

// find returns the package at a path below the module. It fails the test if there is
// none: a rule for a package that was moved holds nothing.
func (g graph) find(t *testing.T, path string) pkg {
	t.Helper()
	p, found := g[module+path]
	if !found {
		t.Fatalf("there is no package %s", path)
	}
	return p
}

// dependencies returns the import paths of everything that is linked with a package.
func (g graph) dependencies(path string) []string {
	seen := map[string]bool{}
	for queue := []string{path}; len(queue) > 0; queue = queue[1:] {
		if !seen[queue[0]] {
			seen[queue[0]] = true
			queue = append(queue, g[queue[0]].Imports...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// below reports whether an import path is the given one or below it.
func below(path, parent string) bool {
	return path == parent || strings.HasPrefix(path, strings.TrimSuffix(parent, "/")+"/")
}

// TestImportMap compares what each package is for, by the first sentence of its comment, and which package imports
// which with docs/develop/imports.txt. With -update it writes the page: a new arrow then shows in the review.
func TestImportMap(t *testing.T) {
	g, purposes := readGraph(t), readPurposes(t)
	var out strings.Builder
	out.WriteString("# What each package is for, and which others it imports. Generated: go test ./test/imports -update\n")
	for _, path := range g.own() {
		note := ""
		if slices.Contains(pure, strings.TrimPrefix(path, module)) {
			note = " (pure)"
		}
		fmt.Fprintf(&out, "\n%s%s: %s\n", strings.TrimPrefix(path, module), note, purposes[path])
		var others []string
		for _, imported := range g[path].Imports {
			if below(imported, strings.TrimSuffix(module, "/")) {
				fmt.Fprintf(&out, "  %s\n", strings.TrimPrefix(imported, module))
			} else if !g[imported].Standard {
				others = append(others, moduleOf(imported))
			}
		}
		slices.Sort(others)
		for _, other := range slices.Compact(others) {
			fmt.Fprintf(&out, "  + %s\n", other)
		}
	}
	golden.Check(t, filepath.Join("..", "..", "docs", "develop", "imports.txt"), out.String())
}

// moduleOf shortens an import path to host, owner and name.
func moduleOf(path string) string {
	parts := strings.Split(path, "/")
	keep := 2
	if parts[0] == "github.com" || strings.HasPrefix(path, "golang.org/x/") {
		keep = 3
	}
	return strings.Join(parts[:min(keep, len(parts))], "/")
}

// readPurposes returns what each of the product's own packages is for, by import path.
func readPurposes(t *testing.T) map[string]string {
	t.Helper()
	watchSources(t)
	out, err := exec.Command("go", "list", "-json=ImportPath,Doc", module+"pkg/...", module+"internal/...", module+"cmd/...").Output()
	if err != nil {
		t.Fatalf("listing the packages of %s: %v", module, err)
	}
	purposes := map[string]string{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct{ ImportPath, Doc string }
		switch err := d.Decode(&p); {
		case err == io.EOF:
			return purposes
		case err != nil:
			t.Fatalf("reading the list of packages: %v", err)
		case p.Doc == "":
			t.Errorf("package %s has no comment", p.ImportPath)
		}
		purposes[p.ImportPath] = purpose(p.Doc)
	}
}

// purpose shortens "Package x does y." and "Command x does y:" to "does y".
func purpose(synopsis string) string {
	text := strings.TrimRight(synopsis, ".:")
	for _, kind := range []string{"Package ", "Command "} {
		if rest, found := strings.CutPrefix(text, kind); found {
			_, text, _ = strings.Cut(rest, " ")
		}
	}
	return text
}

// TestPure holds the pure packages to their rule.
func TestPure(t *testing.T) {
	g := readGraph(t)
	acting := maps.Clone(mixed)
	for _, name := range pure {
		acting[name] = nil
	}
	for name, files := range acting {
		p := g.find(t, name)
		for _, file := range files {
			if !slices.Contains(p.GoFiles, file) {
				t.Errorf("%s has no file %s", name, file)
			}
		}
		for _, file := range p.GoFiles {
			if slices.Contains(files, file) {
				continue
			}
			for _, does := range actsOf(t, filepath.Join(p.Dir, file)) {
				t.Errorf("%s/%s decides and %s", name, file, does)
			}
		}
	}
}

// actsOf returns what a file imports and calls that no file may that decides.
func actsOf(t *testing.T, file string) []string {
	t.Helper()
	files := token.NewFileSet()
	parsed, err := parser.ParseFile(files, file, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	var found []string
	for _, i := range parsed.Imports {
		imported := strings.Trim(i.Path.Value, `"`)
		own, ours := strings.CutPrefix(imported, module)
		_, isMixed := mixed[own]
		if slices.ContainsFunc(acts, func(a string) bool { return imported == a || strings.HasSuffix(a, "/") && below(imported, a) }) ||
			ours && !isMixed && !slices.Contains(pure, own) && !slices.Contains(types, own) {
			found = append(found, "imports "+imported)
		}
	}
	ast.Inspect(parsed, func(n ast.Node) bool {
		if s, ok := n.(*ast.SelectorExpr); ok {
			if x, ok := s.X.(*ast.Ident); ok && x.Name == "time" && slices.Contains(clocks, s.Sel.Name) {
				found = append(found, fmt.Sprintf("calls time.%s at %s", s.Sel.Name, files.Position(s.Pos())))
			}
		}
		return true
	})
	return found
}

// TestLinked checks what packages depend on through others.
func TestLinked(t *testing.T) {
	g := readGraph(t)
	for i, r := range linked {
		if slices.Contains(linked[:i], r) {
			t.Errorf("linked has %s and %s twice: one of the rows is meant for another package", r.of, r.not)
		}
		for _, dep := range g.dependencies(g.find(t, r.of).ImportPath) {
			if below(dep, r.not) {
				t.Errorf("%s depends on %s: %s", r.of, dep, r.why)
			}
		}
	}
	for _, dep := range g.dependencies(g.find(t, "cmd/nadra-gate").ImportPath) {
		if own, found := strings.CutPrefix(dep, module); found && !slices.Contains(linkedByGate, own) ||
			!found && !g[dep].Standard && !below(dep, "golang.org/x/sys") {
			t.Errorf("cmd/nadra-gate depends on %s: the gate runs at every start of a container and must stay small", dep)
		}
	}
	for _, path := range g.own() {
		name := strings.TrimPrefix(path, module)
		for _, imported := range g[path].Imports {
			if imported == "os/exec" && !slices.Contains(starts, name) {
				t.Errorf("%s imports os/exec: only %v may start processes", name, starts)
			}
			for not, why := range nowhere {
				if below(imported, not) {
					t.Errorf("%s imports %s: %s", name, imported, why)
				}
			}
		}
	}
}

// TestNames checks that no two packages share a name.
func TestNames(t *testing.T) {
	names := map[string]string{}
	for _, path := range readGraph(t).own() {
		name := filepath.Base(path)
		if other, found := names[name]; found {
			t.Errorf("%s and %s have the same name", path, other)
		}
		names[name] = path
	}
}
