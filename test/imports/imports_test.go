// Package imports checks the import rules of docs/architecture.md against all
// packages that are linked, not only those that a file imports itself.
package imports

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

const module = "github.com/nadra-dev/nadra/"

// linked must not be among all the dependencies of a package.
var linked = []rule{
	{"pkg/api/...", module + "pkg/attachment", "api is the bottom"},
	{"pkg/api/...", "k8s.io/client-go", "wire types know no client"},
	{"pkg/attachment", "k8s.io/client-go", "attachment is pure: lookups are functions"},
	{"pkg/attachment", module + "pkg/checkpoint", "arrows point down"},
	{"pkg/attachment", module + "pkg/cniexec", "arrows point down"},
	{"pkg/operators", "k8s.io/client-go", "operators is pure: an object in, a definition out"},
	{"pkg/operators", module + "pkg/checkpoint", "arrows point down"},
	{"pkg/operators", module + "pkg/cniexec", "arrows point down"},
	{"pkg/operators", module + "pkg/driver", "arrows point down"},
	{"pkg/operators", module + "pkg/translate", "arrows point down"},
	{"pkg/driver", module + "pkg/operators", "the node attaches to what there is; it makes no networks"},
	{"pkg/cniexec", module + "pkg/checkpoint", "who executes and who remembers do not know each other"},
	{"pkg/checkpoint", module + "pkg/cniexec", "who executes and who remembers do not know each other"},
	{"pkg/cniexec", "k8s.io/client-go", "cniexec runs plugins, it calls no API server"},
	{"pkg/checkpoint", "k8s.io/client-go", "records are read by small programs too"},
	{"pkg/translate", "k8s.io/client-go", "translate is pure: lookups are functions"},
	{"pkg/translate", module + "pkg/driver", "arrows point down"},
	{"pkg/translate", module + "pkg/checkpoint", "arrows point down"},
	{"pkg/translate", module + "pkg/cniexec", "arrows point down"},
	{"pkg/admission", "k8s.io/client-go", "admission is pure: lookups are functions"},
	{"pkg/admission", "sigs.k8s.io/controller-runtime", "admission is pure; internal/webhook speaks to the API server"},
	{"pkg/admission", module + "pkg/driver", "arrows point down"},
	{"pkg/admission", module + "pkg/checkpoint", "arrows point down"},
	{"pkg/admission", module + "pkg/cniexec", "arrows point down"},
	{"internal/webhook", module + "pkg/driver", "admission knows objects, not nodes"},
	{"internal/webhook", module + "pkg/checkpoint", "records are the node's"},
	{"internal/webhook", module + "pkg/cniexec", "only the node attaches"},
	{"pkg/driver", module + "pkg/admission", "the node executes claims; who serves a pod was decided before"},
	{"internal/report", "k8s.io/client-go", "report is pure: a result in, bytes out"},
	{"internal/report", module + "pkg/driver", "arrows point down"},
	{"internal/report", module + "pkg/checkpoint", "arrows point down"},
	{"internal/report", module + "pkg/cniexec", "arrows point down"},
	{"internal/inspect", "k8s.io/client-go", "inspect is pure: objects in, answers out; internal/inspect/live reads them"},
	{"internal/inspect", module + "pkg/driver", "arrows point down"},
	{"internal/inspect", module + "pkg/checkpoint", "it looks at what the API server knows, not at a node's disk"},
	{"internal/inspect", module + "pkg/cniexec", "arrows point down"},
	{"internal/doctor", "k8s.io/client-go", "doctor is pure: what was read in, checks out; internal/doctor/live reads the cluster"},
	{"internal/doctor", module + "internal/probe/host", "only a pod on the node looks at the node"},
	{"internal/doctor", module + "pkg/driver", "arrows point down"},
	{"internal/doctor", module + "pkg/checkpoint", "it looks at what is there before the driver, too"},
	{"internal/upgrade", "k8s.io/client-go", "upgrade is pure: objects in, a plan out; internal/upgrade/live reads the cluster"},
	{"internal/upgrade", module + "pkg/driver", "arrows point down"},
	{"internal/probe", "k8s.io", "what a node says is read by both ends, and needs no Kubernetes"},
	{"internal/snapshot", "k8s.io/client-go", "snapshot is pure: objects in, differences out; internal/snapshot/live reads the cluster"},
	{"internal/snapshot", module + "internal/probe/host", "only a pod on the node looks at the node"},
	{"internal/snapshot", module + "pkg/driver", "arrows point down"},
	{"internal/snapshot", module + "pkg/checkpoint", "it looks at what is told of pods, not at a node's disk"},
	{"internal/bundle", "k8s.io", "bundle is pure: trees and texts in, an archive out; internal/bundle/live reads the cluster"},
	{"internal/bundle", module + "pkg", "it knows no object but by its fields"},
	{"internal/bundle/live", module + "pkg/driver", "arrows point down"},
	{"internal/cleanup", "k8s.io/client-go", "cleanup is pure: facts in, orphans out; internal/cleanup/live reads the cluster"},
	{"internal/cleanup", module + "pkg/checkpoint", "internal/cleanup/host reads the node"},
	{"internal/cleanup", module + "pkg/driver", "arrows point down"},
	{"internal/cleanup/cluster", "k8s.io/client-go", "cluster is pure: objects in, orphans out"},
	{"internal/cleanup/host", "k8s.io/client-go", "it acts on the node; it calls no API server"},
	{"internal/cleanup/host", module + "pkg/driver", "arrows point down"},
	{"internal/uninstall", "k8s.io/client-go", "uninstall is pure: objects in, users out; internal/uninstall/live reads the cluster"},
	{"internal/uninstall", module + "pkg/checkpoint", "internal/uninstall/host reads the node"},
	{"internal/uninstall/host", "k8s.io/client-go", "it acts on the node; it calls no API server"},
	{"internal/uninstall/host", module + "pkg/driver", "arrows point down"},
	{"internal/made", "k8s.io/client-go", "made is pure: by what sign the controller's objects are known"},
	{"cmd/kubectl-nadra", module + "internal/cleanup/host", "only a pod on the node acts on the node"},
	{"cmd/kubectl-nadra", module + "internal/uninstall/host", "only a pod on the node acts on the node"},
	{"internal/canary", "k8s.io/client-go", "canary is pure: a plan out, answers in; internal/canary/live runs it"},
	{"internal/canary", "github.com/vishvananda/netlink", "internal/canary/echo runs in the pod; the command line runs anywhere"},
	{"internal/canary", module + "pkg/driver", "arrows point down"},
	{"internal/canary/echo", "k8s.io/client-go", "it runs in a pod without rights; it calls no API server"},
	{"cmd/kubectl-nadra", module + "internal/canary/echo", "only the pod pings"},
	{"internal/probe/host", "k8s.io/client-go", "it looks at the node; it calls no API server"},
	{"internal/probe/host", module + "pkg/driver", "arrows point down"},
	{"cmd/kubectl-nadra", module + "internal/probe/host", "only a pod on the node looks at the node"},
	{"pkg/driver", module + "internal/inspect", "the node writes status; it does not read it for people"},
	{"internal/metrics", "k8s.io", "names and numbers: it knows no object, and serves nodes and controller"},
	{"internal/metrics", module + "pkg", "those who count are above"},
	{"pkg/checkpoint", module + "internal/metrics", "driver measures; below it is told by functions"},
	{"pkg/cniexec", module + "internal/metrics", "driver measures; below it is told by functions"},
	{"cmd/nadra-gate", module + "internal/metrics", "the gate runs at every container start: small"},
	{"cmd/kubectl-nadra", module + "internal/metrics", "the command line is measured by nobody"},
	{"cmd/nadra-node", module + "pkg/translate", "the node executes claims; it does not reinterpret annotations"},
	{"pkg/driver", module + "pkg/translate", "the node executes claims; it does not reinterpret annotations"},
	{"pkg/inventory", "k8s.io/client-go", "the inventory is the host's; it calls no API server"},
	{"pkg/inventory", module + "pkg/pools", "arrows point down"},
	{"pkg/pools", "k8s.io/client-go", "pools is pure: objects in, pools out; driver reads them"},
	{"pkg/pools", module + "pkg/driver", "arrows point down"},
	{"cmd/...", "k8s.io/kubernetes", "not a library; it would drag in everything"},
	{"cmd/...", "github.com/containerd/containerd", "we speak NRI to any runtime"},
	{"cmd/...", module + "test", "the product does not know its tests"},
	{"cmd/nadra-gate", "k8s.io", "the gate runs at every container start: small, and its own reader of records"},
	{"cmd/nadra-gate", "github.com/containernetworking/cni", "the gate decides; it attaches nothing"},
	{"cmd/kubectl-nadra", module + "pkg/driver", "the command line reads and writes objects; only the node attaches"},
	{"cmd/kubectl-nadra", module + "pkg/checkpoint", "records are the node's"},
	{"cmd/nadra-controller", module + "pkg/driver", "the controller writes objects; only the node attaches"},
	{"cmd/nadra-controller", module + "pkg/checkpoint", "records are the node's"},
	{"cmd/nadra-controller", module + "pkg/cniexec", "only the node attaches"},
	{"cmd/nadra-controller", module + "internal/cli", "the command line's libraries stay there"},
	{"cmd/nadra-node", "sigs.k8s.io/controller-runtime", "client-go is enough for what a node watches"},
	{"cmd/nadra-node", "github.com/spf13/cobra", "the command line's libraries stay there"},
	{"cmd/...", "testing", "no test code is linked"},
}

// imported must not be among what a package's own files import; libraries
// below it may well use it.
var imported = []rule{
	{"pkg/api/...", "context", "a pure function does not wait"},
	{"pkg/attachment", "context", "a pure function does not wait"},
	{"pkg/attachment", "os", "a pure function touches no files"},
	{"pkg/attachment", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"pkg/attachment", "os/exec", "only cniexec starts processes"},
	{"pkg/operators", "context", "a pure function does not wait"},
	{"pkg/operators", "os", "a pure function touches no files and no environment"},
	{"pkg/operators", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"pkg/operators", "os/exec", "only cniexec starts processes"},
	{"pkg/translate", "context", "a pure function does not wait"},
	{"pkg/translate", "os", "a pure function touches no files"},
	{"pkg/translate", "time", "the same input gives the same output at any time"},
	{"pkg/translate", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"pkg/translate", "os/exec", "only cniexec starts processes"},
	{"pkg/admission", "context", "a pure function does not wait"},
	{"pkg/admission", "os", "a pure function touches no files"},
	{"pkg/admission", "time", "the same pod gets the same answer at any time"},
	{"pkg/admission", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"pkg/admission", "os/exec", "only cniexec starts processes"},
	{"pkg/inventory", "os/exec", "only cniexec starts processes"},
	{"pkg/inventory", "k8s.io/klog/v2", "the inventory returns errors; the edges log"},
	{"pkg/pools", "context", "a pure function does not wait"},
	{"pkg/pools", "os", "a pure function touches no files"},
	{"pkg/pools", "time", "the same input gives the same output at any time"},
	{"pkg/pools", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"pkg/pools", "os/exec", "only cniexec starts processes"},
	{"internal/webhook", module + "pkg/translate", "admission decides; the webhook carries out"},
	{"internal/report", "context", "a pure function does not wait"},
	{"internal/report", "os", "report writes to the writer that it is given"},
	{"internal/report", "time", "the same report gives the same bytes at any time"},
	{"internal/report", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/report", "os/exec", "only cniexec starts processes"},
	{"internal/inspect", "context", "a pure function does not wait"},
	{"internal/inspect", "os", "a pure function touches no files"},
	{"internal/inspect", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/inspect", "os/exec", "only cniexec starts processes"},
	{"internal/doctor", "context", "a pure function does not wait"},
	{"internal/doctor", "os", "a pure function touches no files"},
	{"internal/doctor", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/upgrade", "context", "a pure function does not wait"},
	{"internal/upgrade", "os", "a pure function touches no files"},
	{"internal/upgrade", "time", "the same cluster gets the same plan at any time"},
	{"internal/upgrade", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/snapshot", "context", "a pure function does not wait"},
	{"internal/snapshot", "os", "a pure function touches no files"},
	{"internal/snapshot", "time", "the same state gives the same snapshot at any time"},
	{"internal/snapshot", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/bundle", "context", "a pure function does not wait"},
	{"internal/bundle", "os", "bundle writes to the writer that it is given"},
	{"internal/bundle", "time", "the same content gives the same archive at any time"},
	{"internal/cleanup", "context", "a pure function does not wait"},
	{"internal/cleanup", "os", "a pure function touches no files"},
	{"internal/cleanup", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/cleanup/cluster", "context", "a pure function does not wait"},
	{"internal/cleanup/host", "os/exec", "only cniexec starts processes"},
	{"internal/uninstall", "context", "a pure function does not wait"},
	{"internal/uninstall", "os", "a pure function touches no files"},
	{"internal/uninstall", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/made", "context", "a pure function does not wait"},
	{"internal/canary", "context", "a pure function does not wait"},
	{"internal/canary", "os", "a pure function touches no files"},
	{"internal/canary", "k8s.io/klog/v2", "pure packages return errors; the edges log"},
	{"internal/canary/echo", "os/exec", "only cniexec starts processes"},
	{"internal/probe", "context", "a pure function does not wait"},
	{"internal/probe", "os", "a pure function touches no files"},
	{"internal/probe/host", "os/exec", "only cniexec starts processes"},
	{"pkg/checkpoint", "os/exec", "only cniexec starts processes"},
	{"pkg/driver", "os/exec", "only cniexec starts processes"},
	{"pkg/driver", module + "pkg/api/v1alpha1", "the wire form ends at attachment.FromClaim"},
}

// rule says what package must not have which dependency, and why.
type rule struct{ of, not, why string }

// graph maps the import path of every package of the product, and of every
// package that is linked into it, to the import paths of its own files.
type graph map[string][]string

// readGraph lists all packages with one process: two processes for each rule
// took most of this package's time.
func readGraph(t *testing.T) graph {
	t.Helper()
	watchSources(t)
	out, err := exec.Command("go", "list", "-deps", "-json=ImportPath,Imports,ImportMap", module+"pkg/...", module+"internal/...", module+"cmd/...").Output()
	if err != nil {
		t.Fatalf("listing the packages of %s: %v", module, err)
	}
	g := graph{}
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p struct {
			ImportPath string
			Imports    []string
			ImportMap  map[string]string
		}
		switch err := d.Decode(&p); {
		case err == io.EOF:
			return g
		case err != nil:
			t.Fatalf("reading the list of packages: %v", err)
		}
		for i, path := range p.Imports {
			p.Imports[i] = cmp.Or(p.ImportMap[path], path) // a vendored package of the standard library
		}
		g[p.ImportPath] = p.Imports
	}
}

// watchSources makes `go test` run this package again when a source file
// changes: a cached result lasts until something changes that the test itself
// looked at, and the files are read by another process.
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

// matching returns the packages that a rule names, and fails if there is none:
// a rule for a package that was moved would hold nothing.
func (g graph) matching(t *testing.T, of string) []string {
	t.Helper()
	var found []string
	base, below := strings.CutSuffix(of, "/...")
	for path := range g {
		if path == module+base || below && strings.HasPrefix(path, module+base+"/") {
			found = append(found, path)
		}
	}
	if found == nil {
		t.Fatalf("there is no package %s", of)
	}
	return found
}

// dependencies returns the paths of packages and of all that is linked with them.
func (g graph) dependencies(paths []string) []string {
	seen := map[string]bool{}
	for queue := slices.Clone(paths); len(queue) > 0; queue = queue[1:] {
		if !seen[queue[0]] {
			seen[queue[0]] = true
			queue = append(queue, g[queue[0]]...)
		}
	}
	return slices.Sorted(maps.Keys(seen))
}

// imports returns the paths that the files of packages import themselves.
func (g graph) imports(paths []string) []string {
	var found []string
	for _, path := range paths {
		found = append(found, g[path]...)
	}
	slices.Sort(found)
	return slices.Compact(found)
}

func TestImports(t *testing.T) {
	g := readGraph(t)
	t.Run("Linked", func(t *testing.T) {
		for _, r := range linked {
			r.check(t, g.dependencies(g.matching(t, r.of)))
		}
	})
	t.Run("Imported", func(t *testing.T) {
		for _, r := range imported {
			r.check(t, g.imports(g.matching(t, r.of)))
		}
	})
}

// check reports every dependency that the rule excludes.
func (r rule) check(t *testing.T, deps []string) {
	t.Helper()
	for _, dep := range deps {
		// Below a module's path everything is meant, but not below "os".
		if dep == r.not || strings.Contains(r.not, ".") && strings.HasPrefix(dep, r.not+"/") {
			t.Errorf("%s depends on %s: %s", r.of, dep, r.why)
		}
	}
}
