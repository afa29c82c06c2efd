package surface

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/nadra-dev/nadra/"

// versionName matches the names of constants that are the version of a format.
var versionName = regexp.MustCompile(`(?i)version$`)

// formats names the types that are written for others to read: by a later version, by another program, or by people's scripts.
var formats = map[string]string{
	"internal/desk/bundle.Index":             "report BundleIndex",
	"internal/desk/canary.Plan":              "report CanaryPlan",
	"internal/desk/canary.Report":            "report CanaryReport",
	"internal/desk/cleanup.Report":           "report CleanupReport",
	"internal/desk/cli.versions":             "report version",
	"internal/desk/doctor.Capabilities":      "report ClusterCapabilities",
	"internal/desk/doctor.Report":            "report DoctorReport",
	"internal/desk/inspect.Chain":            "report Chain",
	"internal/desk/inspect.List":             "report List",
	"internal/desk/inspect.One":              "report Attachment",
	"internal/desk/inspect.Network":          "report Network",
	"internal/desk/report.Report":            "report ScanReport",
	"internal/desk/snapshot.Report":          "report VerifyReport",
	"internal/desk/snapshot.Snapshot":        "report Snapshot",
	"internal/desk/upgrade.Plan":             "report UpgradePlan",
	"internal/desk/upgrade.State":            "object nadra-upgrade",
	"internal/probe.Inspection":              "output nadra-node Inspection",
	"internal/probe.MultusConfReport":        "output nadra-node MultusConfReport",
	"internal/probe.MultusReport":            "output nadra-node MultusReport",
	"internal/probe.OrphanReport":            "output nadra-node OrphanReport",
	"internal/probe.Pings":                   "output nadra-node Pings",
	"internal/probe.PodReport":               "output nadra-node PodReport",
	"internal/probe.PodsReport":              "output nadra-node PodsReport",
	"internal/probe.Remains":                 "output nadra-node Remains",
	"internal/probe.Report":                  "output nadra-node Report",
	"pkg/api/v1alpha1.AttachmentConfig":      "api AttachmentConfig",
	"pkg/checkpoint.claimFile":               "file claims/UID.json",
	"pkg/checkpoint.pendingDELFile":          "file pending-dels/HASH.json",
	"pkg/driver/internal/succession.Record":  "file holder.json",
	"pkg/driver/internal/succession.Request": "socket handover request",
	"pkg/driver/internal/succession.Answer":  "socket handover answer",
	"pkg/driver/offer.Facts":                 "annotation nadra.dev/facts",
}

// others names the types that only read, or write what is not nadra's format.
var others = []string{
	"internal/desk/doctor.Server",   // a part of ClusterCapabilities
	"internal/desk/report.sarifLog", // SARIF's
	"internal/gate.claimFile",       // reads claims/UID.json
	"pkg/translate.ObjectRef",       // a part of findings
}

// declared is a type with the file that declares it.
type declared struct {
	dir     string
	expr    ast.Expr
	imports map[string]string
}

// types are the types of the product by DIRECTORY.NAME, those that encode themselves, and those that are in a format.
type types struct {
	all            map[string]declared
	encodes, shown map[string]bool
}

// printed is the package of the forms in which a program on a node answers kubectl nadra, maybe one of another version.
const printed = "internal/probe."

// shapes returns a line for each field of each format, and for each constant that is a format's version or an exit
// code.
func shapes(t *testing.T) (out []string) {
	t.Helper()
	read := types{map[string]declared{}, map[string]bool{}, map[string]bool{}}
	for _, dir := range []string{"cmd", "internal", "pkg"} {
		err := fs.WalkDir(os.DirFS(root), dir, func(name string, _ fs.DirEntry, err error) error {
			if err == nil && strings.HasSuffix(name, ".go") && !strings.HasSuffix(name, "_test.go") {
				out = append(out, read.add(t, name)...)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for of, title := range formats {
		d, found := read.all[of]
		if !found {
			t.Errorf("there is no type %s", of)
			continue
		}
		out = append(out, read.fields(d, title+" ", nil)...)
	}
	for name, d := range read.all {
		if formats[name] == "" && !slices.Contains(others, name) && isFormat(d.expr) {
			t.Errorf("%s has a version: add it to the formats, or to the others", name)
		}
		if strings.HasPrefix(name, printed) && !read.shown[name] && formats[name] == "" && encoded(d.expr) {
			t.Errorf("%s is printed on nodes, and a part of no format: add it to the formats", name)
		}
	}
	return out
}

// add reads a file, and returns the lines of its constants.
func (x types) add(t *testing.T, name string) (out []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, filepath.FromSlash(name)), nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	imports := map[string]string{}
	for _, i := range file.Imports {
		of, _ := strconv.Unquote(i.Path.Value)
		as := path.Base(of)
		if i.Name != nil {
			as = i.Name.Name
		}
		imports[as] = of
	}
	dir := path.Dir(name)
	for _, d := range file.Decls {
		if f, ok := d.(*ast.FuncDecl); ok && f.Recv != nil && (f.Name.Name == "MarshalJSON" || f.Name.Name == "MarshalText") {
			x.encodes[dir+"."+typeName(f.Recv.List[0].Type)] = true
		}
		g, ok := d.(*ast.GenDecl)
		if !ok {
			continue
		}
		for _, spec := range g.Specs {
			switch s := spec.(type) {
			case *ast.TypeSpec:
				x.all[dir+"."+s.Name.Name] = declared{dir, s.Type, imports}
			case *ast.ValueSpec:
				for i, n := range s.Names {
					if i >= len(s.Values) {
						continue
					}
					v, ok := s.Values[i].(*ast.BasicLit)
					switch {
					case !ok || v.Kind != token.INT:
					case versionName.MatchString(n.Name):
						out = append(out, "version "+dir+"."+n.Name+" "+v.Value)
					case dir == "internal/desk/cli" && strings.HasPrefix(n.Name, "Code"):
						out = append(out, "exit "+v.Value+" "+n.Name)
					}
				}
			}
		}
	}
	return out
}

// typeName returns the name of a receiver's type.
func typeName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return typeName(e.X)
	case *ast.IndexExpr:
		return typeName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

// tagOf returns the key of a field in JSON, and whether the field may be absent or is a part of its parent.
func tagOf(f *ast.Field) (name string, optional, inline bool) {
	if f.Tag == nil {
		return "", false, len(f.Names) == 0
	}
	text, _ := strconv.Unquote(f.Tag.Value)
	name, options, _ := strings.Cut(reflect.StructTag(text).Get("json"), ",")
	return name, strings.Contains(options, "omit"), strings.Contains(options, "inline") || len(f.Names) == 0 && name == ""
}

// isFormat reports whether a struct says which version of which format it is.
func isFormat(e ast.Expr) bool {
	s, ok := e.(*ast.StructType)
	if !ok {
		return false
	}
	has := map[string]bool{}
	for _, f := range s.Fields.List {
		name, _, inline := tagOf(f)
		selector, ok := f.Type.(*ast.SelectorExpr)
		has[name] = true
		has["meta"] = has["meta"] || inline && ok && selector.Sel.Name == "TypeMeta"
	}
	return has["version"] || has["meta"] || has["apiVersion"] && has["kind"]
}

// encoded reports whether a struct has a field with a key in JSON.
func encoded(e ast.Expr) bool {
	s, ok := e.(*ast.StructType)
	return ok && slices.ContainsFunc(s.Fields.List, func(f *ast.Field) bool { return f.Tag != nil })
}

// fields returns the lines of the fields of a type. within are the types that it is a part of.
func (x types) fields(d declared, prefix string, within []string) (out []string) {
	switch e := d.expr.(type) {
	case *ast.StarExpr:
		return x.fields(declared{d.dir, e.X, d.imports}, prefix, within)
	case *ast.ArrayType:
		return x.fields(declared{d.dir, e.Elt, d.imports}, prefix+"[]", within)
	case *ast.MapType:
		return x.fields(declared{d.dir, e.Value, d.imports}, prefix+"{}", within)
	case *ast.Ident:
		return x.named(d.dir+"."+e.Name, e.Name, prefix, within)
	case *ast.SelectorExpr:
		of := d.imports[e.X.(*ast.Ident).Name]
		if dir, ok := strings.CutPrefix(of, module); ok {
			return x.named(dir+"."+e.Sel.Name, e.Sel.Name, prefix, within)
		}
		if e.Sel.Name == "TypeMeta" {
			return []string{prefix + ".apiVersion string", prefix + ".kind string"}
		}
		return []string{prefix + " " + path.Base(of) + "." + e.Sel.Name}
	case *ast.StructType:
		for _, f := range e.Fields.List {
			name, optional, inline := tagOf(f)
			if name == "-" || len(f.Names) > 0 && !f.Names[0].IsExported() {
				continue
			}
			if name == "" && len(f.Names) > 0 {
				name = f.Names[0].Name
			}
			to := prefix + "." + name
			if optional {
				to += "?"
			}
			if inline {
				to = prefix
			}
			out = append(out, x.fields(declared{d.dir, f.Type, d.imports}, to, within)...)
		}
		return out
	}
	return []string{prefix + " any"}
}

// named returns the lines of a named type. A type that encodes itself, and one of the language, has one line.
func (x types) named(key, name, prefix string, within []string) []string {
	d, found := x.all[key]
	x.shown[key] = true
	if !found || x.encodes[key] || slices.Contains(within, key) {
		return []string{prefix + " " + name}
	}
	return x.fields(d, prefix, append(slices.Clone(within), key))
}
