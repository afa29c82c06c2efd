package translate

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

// kustomizationFiles are the file names that kustomize looks for.
var kustomizationFiles = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// KustomizationFiles returns the file names that kustomize looks for.
func KustomizationFiles() []string { return slices.Clone(kustomizationFiles) }

// IsKustomization reports whether a file has the name of a kustomization.
func IsKustomization(file string) bool {
	return slices.Contains(kustomizationFiles, path.Base(filepath.ToSlash(file)))
}

// kustomization is what a kustomization does to the manifests that it names.
type kustomization struct {
	file, folder string
	namespace    string
	// alters is the field that changes names, or what the rules cannot know; empty if there is none.
	alters string
	// resources are files and folders, patches files.
	resources, patches []string
}

// kustomizationText has the fields of a kustomization that the rules read.
type kustomizationText struct {
	Namespace    string              `json:"namespace"`
	NamePrefix   string              `json:"namePrefix"`
	NameSuffix   string              `json:"nameSuffix"`
	Transformers []any               `json:"transformers"`
	Resources    []string            `json:"resources"`
	Bases        []string            `json:"bases"`
	Components   []string            `json:"components"`
	Patches      []kustomizationFile `json:"patches"`
	Strategic    []string            `json:"patchesStrategicMerge"`
	JSON         []kustomizationFile `json:"patchesJson6902"`
}

type kustomizationFile struct {
	Path string `json:"path"`
}

// parseKustomization reads a kustomization. It returns an empty one for a file that it cannot read.
func parseKustomization(f File) *kustomization {
	file := slashed(f.Name)
	out := &kustomization{file: file, folder: path.Dir(file)}
	var text kustomizationText
	if yaml.Unmarshal(f.Data, &text) != nil {
		return out
	}
	out.namespace = text.Namespace
	switch {
	case text.NamePrefix != "":
		out.alters = "namePrefix"
	case text.NameSuffix != "":
		out.alters = "nameSuffix"
	case len(text.Transformers) > 0:
		out.alters = "transformers"
	}
	for _, r := range slices.Concat(text.Resources, text.Bases, text.Components) {
		out.resources = append(out.resources, path.Join(out.folder, r))
	}
	for _, p := range slices.Concat(text.Patches, text.JSON) {
		if p.Path != "" {
			out.patches = append(out.patches, path.Join(out.folder, p.Path))
		}
	}
	for _, p := range text.Strategic {
		if !strings.Contains(p, "\n") { // otherwise it is the patch itself
			out.patches = append(out.patches, path.Join(out.folder, p))
		}
	}
	return out
}

func slashed(name string) string { return path.Clean(filepath.ToSlash(name)) }

// kustomizations has what the kustomizations of the input do to its other files.
type kustomizations struct {
	byFolder map[string]*kustomization
	// built has the files that kustomizations build, by name.
	built map[string]*built
	// patches has the folder of the kustomization of each patch.
	patches map[string]string
}

// built is what becomes of a file.
type built struct {
	// roots are the folders of the kustomizations that build it and that no other one includes, sorted.
	roots []string
	// namespace is the namespace that all of them set, or empty.
	namespace string
	// altered says why the names or namespaces of its objects are not those of the file; empty if they are.
	altered string
}

// newKustomizations reads the kustomizations among files.
func newKustomizations(files []File) kustomizations {
	k := kustomizations{byFolder: map[string]*kustomization{}, built: map[string]*built{}, patches: map[string]string{}}
	for _, f := range files {
		if IsKustomization(f.Name) {
			one := parseKustomization(f)
			k.byFolder[one.folder] = one
		}
	}
	included := map[string]bool{}
	for _, one := range k.byFolder {
		for _, p := range one.patches {
			k.patches[p] = one.folder
		}
		for _, r := range one.resources {
			included[r] = included[r] || k.byFolder[r] != nil
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(k.byFolder)) {
		if !included[folder] {
			k.visit(folder, folder, "", "", map[string]bool{})
		}
	}
	return k
}

// visit records what a root does to the files below a kustomization. namespace and altered come from the
// kustomizations above, which have the last word.
func (k kustomizations) visit(root, folder, namespace, altered string, seen map[string]bool) {
	if seen[folder] {
		return
	}
	seen[folder] = true
	one := k.byFolder[folder]
	if namespace == "" {
		namespace = one.namespace
	}
	if altered == "" && one.alters != "" {
		altered = fmt.Sprintf("%s sets %s", one.file, one.alters)
	}
	for _, r := range one.resources {
		if k.byFolder[r] != nil {
			k.visit(root, r, namespace, altered, seen)
			continue
		}
		k.record(r, root, namespace, altered)
	}
}

// record records what a root does to a file.
func (k kustomizations) record(file, root, namespace, altered string) {
	b := k.built[file]
	switch {
	case b == nil:
		k.built[file] = &built{[]string{root}, namespace, altered}
		return
	case slices.Contains(b.roots, root):
	default:
		b.roots = append(b.roots, root)
	}
	if b.altered == "" {
		b.altered = altered
	}
	if b.altered == "" && b.namespace != namespace {
		b.altered = fmt.Sprintf("%s give it different namespaces", strings.Join(b.roots, " and "))
	}
}

// namespace returns the namespace that kustomizations give the objects of a file, or "".
func (k kustomizations) namespace(file string) string {
	if b := k.built[slashed(file)]; b != nil && b.altered == "" {
		return b.namespace
	}
	return ""
}

// checkAltered reports an object whose name or namespace a kustomization changes in a way that the file
// does not show.
func (k kustomizations) checkAltered(r *reporter) {
	if b := k.built[slashed(r.doc.file)]; b != nil && b.altered != "" {
		var commands []string
		for _, root := range b.roots {
			commands = append(commands, "-k "+root)
		}
		r.add(KustomizationAlters, r.object.path, r.doc.at(r.object.node), "%s: use %s", b.altered, strings.Join(commands, ", or "))
	}
}

// spread returns one file of each place, the first one.
func (k kustomizations) spread(files []string) []string {
	var out []string
	seen := map[string]bool{}
	for _, file := range files {
		fresh := false
		for _, place := range k.places(file) {
			fresh = fresh || !seen[place]
			seen[place] = true
		}
		if fresh {
			out = append(out, file)
		}
	}
	return out
}

// places returns what is applied together with a file: the roots that build it, or else its folder.
func (k kustomizations) places(file string) []string {
	file = slashed(file)
	if b := k.built[file]; b != nil {
		return b.roots
	}
	return []string{"folder " + path.Dir(file)}
}
