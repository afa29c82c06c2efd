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
	// deployed has the deployments whose folder is in the input.
	deployed map[string]bool
}

// built is what becomes of a file.
type built struct {
	// roots are the folders that are deployed with it by themselves: of kustomizations that no other one
	// includes, and of deployments; sorted. by names what deploys them.
	roots, by []string
	// uses are the flags by which commands read what is deployed.
	uses []string
	// namespace is the namespace that all of them set, or empty. fills is that of objects that state none.
	namespace, fills string
	// altered says why the names or namespaces of its objects are not those of the file; empty if they are.
	// unfilled is set if that is true only of objects that state no namespace.
	altered  string
	unfilled bool
}

// root is a folder that is deployed by itself.
type root struct{ folder, by, use string }

// setting is what the kustomizations above a file, and a deployment, do to the file.
type setting struct{ namespace, fills, altered string }

// newKustomizations reads the kustomizations among files, and applies deployments.
func newKustomizations(files []File, deployments []deployment) kustomizations {
	k := kustomizations{byFolder: map[string]*kustomization{}, built: map[string]*built{}, patches: map[string]string{}, deployed: map[string]bool{}}
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
	all := foldersOf(files)
	for _, d := range deployments {
		for _, folder := range all.of(d) {
			if one, known := d.in(folder); known {
				k.deploy(one, folder, files, included)
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(k.byFolder)) {
		if !included[folder] {
			k.visit(root{folder, folder, "-k " + folder}, k.byFolder[folder], setting{}, map[string]bool{})
		}
	}
	return k
}

// deploy records what a deployment does to the files of a folder. Without a kustomization, all of them are
// deployed, and kustomizations in subfolders as such. It adds the kustomizations that it deploys to included.
func (k kustomizations) deploy(d deployment, folder string, files []File, included map[string]bool) {
	one, s := k.byFolder[folder], setting{namespace: d.namespace}
	at := root{folder, d.by, d.use(folder, one != nil)}
	if d.fills {
		s = setting{fills: d.namespace}
	}
	if one == nil {
		one = &kustomization{folder: folder}
		for _, f := range files {
			name := slashed(f.Name)
			rel, inside := below(folder, name)
			switch sub := k.nearest(folder, path.Dir(name)); {
			case !inside || d.flat && strings.Contains(rel, "/"):
			case sub == "":
				one.resources = append(one.resources, name)
			case !slices.Contains(one.resources, sub):
				one.resources = append(one.resources, sub)
			}
		}
	}
	included[folder], k.deployed[d.key()] = true, true
	for _, r := range one.resources {
		included[r] = true
	}
	k.visit(at, one, s, map[string]bool{})
}

// nearest returns the first folder with a kustomization on the way from a folder to one below it, or "".
func (k kustomizations) nearest(folder, to string) (found string) {
	for ; to != folder && to != path.Dir(to); to = path.Dir(to) {
		if k.byFolder[to] != nil {
			found = to
		}
	}
	return found
}

// visit records what a root does to the files of a kustomization. The setting comes from what is above, which has
// the last word.
func (k kustomizations) visit(at root, one *kustomization, s setting, seen map[string]bool) {
	if seen[one.folder] {
		return
	}
	seen[one.folder] = true
	if s.namespace == "" {
		s.namespace = one.namespace
	}
	if s.altered == "" && one.alters != "" {
		s.altered = fmt.Sprintf("%s sets %s", one.file, one.alters)
	}
	for _, r := range one.resources {
		if k.byFolder[r] != nil {
			k.visit(at, k.byFolder[r], s, seen)
			continue
		}
		k.record(r, at, s)
	}
}

// record records what a root does to a file.
func (k kustomizations) record(file string, at root, s setting) {
	b := k.built[file]
	if b == nil {
		k.built[file] = &built{[]string{at.folder}, []string{at.by}, []string{at.use}, s.namespace, s.fills, s.altered, false}
		return
	}
	if !slices.Contains(b.roots, at.folder) {
		b.roots = append(b.roots, at.folder)
	}
	if !slices.Contains(b.uses, at.use) {
		b.by, b.uses = append(b.by, at.by), append(b.uses, at.use)
	}
	if b.altered == "" {
		b.altered = s.altered
	}
	if differs := b.namespace != s.namespace; b.altered == "" && (differs || b.fills != s.fills) {
		b.altered, b.unfilled = fmt.Sprintf("%s give it different namespaces", strings.Join(b.by, " and ")), !differs
	}
}

// namespace returns the namespace that the objects of a file get, or "", and the one that they get if they state
// none, or "".
func (k kustomizations) namespace(file string) (namespace, fills string) {
	if b := k.built[slashed(file)]; b != nil && b.altered == "" {
		return b.namespace, b.fills
	}
	return "", ""
}

// checkAltered reports an object whose name or namespace a kustomization or a deployment changes in a way that the
// file does not show.
func (k kustomizations) checkAltered(r *reporter) {
	b := k.built[slashed(r.doc.file)]
	if b == nil || b.altered == "" || b.unfilled && (r.object.stated != "" || r.object.ref.Namespace == "") {
		return
	}
	r.add(KustomizationAlters, r.object.path, r.doc.at(r.object.node), "%s: use %s", b.altered, strings.Join(b.uses, ", or "))
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
