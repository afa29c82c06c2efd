package translate

import (
	"fmt"
	"maps"
	"path"
	"path/filepath"
	"regexp"
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
	// id tells it from all others: its file, or the key of the deployment that it is of.
	id, file, folder string
	namespace        string
	// alters is the field that changes names, or what the rules cannot know; empty if there is none.
	alters string
	// retargets is set if it changes where GitOps controllers deploy, for their objects among its resources.
	retargets bool
	// pods has what it changes of pods.
	pods []podPatch
	// resources are files and folders, components folders, patches files. A component applies to the resources.
	resources, components, patches []string
	component                      bool
}

// kustomizationText has the fields of a kustomization that the rules read. Objects of GitOps controllers have some of
// them, too.
type kustomizationText struct {
	Kind         string              `json:"kind"`
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
	Replacements []replacement       `json:"replacements"`
	// Annotations are those of all objects and pod templates.
	Annotations map[string]string `json:"commonAnnotations"`
}

// kustomizationFile is a patch: a file, or the text itself.
type kustomizationFile struct {
	Path   string       `json:"path"`
	Patch  any          `json:"patch"`
	Target *patchTarget `json:"target"`
}

// replacement is a replacement, or the file that has it.
type replacement struct {
	Path    string `json:"path"`
	Targets []struct {
		FieldPaths []string    `json:"fieldPaths"`
		Select     patchTarget `json:"select"`
	} `json:"targets"`
}

// The patches in the form of JSON Patch that set namespaces, as strategic merge patches cannot, and the patches and
// fields that change where a GitOps controller deploys.
var (
	namespacePatch = regexp.MustCompile(`/metadata(/namespace)?["']?\s*([,}\n]|$)`)
	retargetPatch  = regexp.MustCompile(`\b(targetNamespace|destination)\b`)
)

// parseKustomization reads a kustomization. It returns an empty one for a file that it cannot read. texts has the
// files of the input, by name.
func parseKustomization(f File, texts map[string][]byte) *kustomization {
	file := slashed(f.Name)
	var text kustomizationText
	if yaml.Unmarshal(f.Data, &text) != nil {
		text = kustomizationText{}
	}
	return text.read(file, path.Dir(file), texts)
}

// read returns what a text does in a folder. file has the text.
func (t kustomizationText) read(file, folder string, texts map[string][]byte) *kustomization {
	out := &kustomization{id: file, file: file, folder: folder, namespace: t.Namespace, component: t.Kind == "Component"}
	in := func(names []string) (all []string) {
		for _, name := range names {
			all = append(all, path.Join(folder, name))
		}
		return all
	}
	out.resources, out.components = in(slices.Concat(t.Resources, t.Bases)), in(t.Components)
	var patches []string
	for _, p := range slices.Concat(t.Patches, t.JSON) {
		if p.Path != "" {
			out.patches = append(out.patches, path.Join(folder, p.Path))
		}
		patches = append(patches, fmt.Sprint(p.Patch))
		text := string(texts[path.Join(folder, p.Path)])
		if inline, err := yaml.Marshal(p.Patch); p.Path == "" && err == nil {
			text = string(inline)
			if written, isText := p.Patch.(string); isText {
				text = written
			}
		}
		out.pods = append(out.pods, patchesIn(text, p.Target)...)
	}
	if slices.ContainsFunc(networksKeys, func(key string) bool { _, found := t.Annotations[key]; return found }) {
		out.pods = append(out.pods, podPatch{paths: []Path{nil}}) // of all pods
	}
	for _, p := range t.Strategic {
		if strings.Contains(p, "\n") { // it is the patch itself
			patches = append(patches, p)
			out.pods = append(out.pods, patchesIn(p, nil)...)
		} else {
			out.patches = append(out.patches, path.Join(folder, p))
			out.pods = append(out.pods, patchesIn(string(texts[path.Join(folder, p)]), nil)...)
		}
	}
	for _, p := range out.patches {
		patches = append(patches, string(texts[p]))
	}
	fields, replaced := t.replaced(folder, texts)
	out.pods = append(out.pods, replaced...)
	switch {
	case t.NamePrefix != "":
		out.alters = "namePrefix"
	case t.NameSuffix != "":
		out.alters = "nameSuffix"
	case len(t.Transformers) > 0:
		out.alters = "transformers"
	case slices.Contains(fields, "metadata.namespace"):
		out.alters = "metadata.namespace by replacements"
	case slices.ContainsFunc(patches, namespacePatch.MatchString):
		out.alters = "metadata.namespace by patches"
	}
	out.retargets = slices.ContainsFunc(slices.Concat(patches, fields), retargetPatch.MatchString)
	return out
}

// replaced returns the fields that the replacements of a kustomization set.
func (t kustomizationText) replaced(folder string, texts map[string][]byte) (fields []string, pods []podPatch) {
	for _, r := range t.Replacements {
		all := []replacement{r}
		if text := texts[path.Join(folder, r.Path)]; r.Path != "" && yaml.Unmarshal(text, &all) != nil {
			_ = yaml.Unmarshal(text, &all[0]) // it has one replacement, and no list
		}
		for _, r := range all {
			for _, target := range r.Targets {
				fields = append(fields, target.FieldPaths...)
				one := podPatch{target: target.Select}
				for _, field := range target.FieldPaths {
					one.paths = append(one.paths, fieldPath(field))
				}
				pods = append(pods, one)
			}
		}
	}
	return fields, pods
}

// fieldSteps are the steps of a field path of kustomize. One in brackets may have dots.
var fieldSteps = regexp.MustCompile(`\[[^\]]*\]|(\\.|[^.\[\\])+`)

// fieldPath returns the path of a field of a replacement.
func fieldPath(field string) (out Path) {
	for _, step := range fieldSteps.FindAllString(field, -1) {
		out = append(out, strings.NewReplacer("[", "", "]", "", `\.`, ".").Replace(step))
	}
	return out
}

func slashed(name string) string { return path.Clean(filepath.ToSlash(name)) }

// kustomizations has what the kustomizations of the input do to its other files.
type kustomizations struct {
	byFolder map[string]*kustomization
	// built has the files that kustomizations build, by name.
	built map[string]*built
	// podPatches has what the kustomizations, and deployments, change of pods, by their files and names.
	podPatches map[string][]podPatch
	// uses has the flags by which commands read what is built with a component, by its folder.
	uses map[string][]string
	// clashing has the files whose templates no file could have for all kustomizations.
	clashing map[string]bool
	// patches has the folder of the kustomization of each patch.
	patches map[string]string
	// deployed has the deployments whose folder is in the input.
	deployed map[string]bool
	// first is a deployment of the repository's first folder to a namespace, or nil. Where the repository begins is
	// not known.
	first *deployment
	// texts has the input's files by name.
	texts map[string][]byte
}

// built is what becomes of a file.
type built struct {
	// roots are the folders that are deployed with it by themselves: of kustomizations that no other one
	// includes, and of deployments; sorted. by names what deploys them.
	roots, by []string
	// uses are the flags by which commands read what is deployed.
	uses []string
	// setting is what all of them do. If altered is set, the names or namespaces of its objects are not those of the
	// file.
	setting
	// unfilled is set if that is true only of objects that state no namespace.
	unfilled bool
}

// root is a folder that is deployed by itself. second is set if it counts only for files that others deploy.
type root struct {
	folder, by, use string
	second          bool
}

// setting is what the kustomizations above a file, and a deployment, do to the file. namespace is the namespace that
// they set, or empty, and fills that of objects that state none. altered says why names or namespaces are not those
// of the file.
type setting struct {
	namespace, fills, altered string
	retargets                 bool
	// patchers has the kustomizations and deployments that change pods, one a line.
	patchers string
}

// under returns the setting that a kustomization makes of the one from above, which has the last word.
func (s setting) under(one *kustomization) setting {
	if s.namespace == "" {
		s.namespace = one.namespace
	}
	if s.altered == "" && one.alters != "" {
		s.altered = fmt.Sprintf("%s sets %s", one.file, one.alters)
	}
	s.retargets = s.retargets || one.retargets
	if len(one.pods) > 0 && !slices.Contains(strings.Split(s.patchers, "\n"), one.id) {
		s.patchers += one.id + "\n"
	}
	return s
}

// newKustomizations reads the kustomizations among files, and applies deployments.
func newKustomizations(files []File, deployments []deployment) kustomizations {
	k := kustomizations{byFolder: map[string]*kustomization{}, patches: map[string]string{}, podPatches: map[string][]podPatch{}, clashing: map[string]bool{}}
	for _, d := range deployments {
		k.podPatches[d.own.id] = append(k.podPatches[d.own.id], d.own.pods...)
	}
	k.texts = map[string][]byte{}
	for _, f := range files {
		k.texts[slashed(f.Name)] = f.Data
	}
	for _, f := range files {
		if IsKustomization(f.Name) {
			one := parseKustomization(f, k.texts)
			k.byFolder[one.folder] = one
			k.podPatches[one.id] = one.pods
		}
	}
	for _, one := range k.byFolder {
		for _, p := range one.patches {
			k.patches[p] = one.folder
		}
	}
	k.apply(files, deployments)
	again := false
	for i, d := range deployments {
		if b := k.built[d.file]; b != nil && b.retargets {
			deployments[i].unknown, again = true, true
		}
	}
	if again {
		k.apply(files, deployments)
	}
	return k
}

// apply records what deployments and kustomizations do to files.
func (k *kustomizations) apply(files []File, deployments []deployment) {
	k.built, k.deployed, k.first, k.uses = map[string]*built{}, map[string]bool{}, nil, map[string][]string{}
	included := map[string]bool{}
	for _, one := range k.byFolder {
		for _, r := range slices.Concat(one.resources, one.components) {
			included[r] = included[r] || k.byFolder[r] != nil
		}
	}
	all := foldersOf(files)
	for _, second := range []bool{false, true} { // what names no namespace comes last
		for _, d := range deployments {
			if one := d.in("."); d.isFirst() && one.namespace != "" && k.first == nil {
				k.first = &one
			}
			for _, folder := range all.of(d) {
				if one := d.in(folder); one.changes() != second {
					k.deploy(one, folder, files, included)
				}
			}
		}
	}
	for _, folder := range slices.Sorted(maps.Keys(k.byFolder)) {
		if !included[folder] {
			k.visit(root{folder: folder, by: folder, use: "-k " + folder}, k.byFolder[folder], setting{}, visits{})
		}
	}
}

// deploy records what a deployment does to the files of a folder. Without a kustomization, all of them are
// deployed, and kustomizations in subfolders as such. It adds the kustomizations that it deploys to included.
func (k kustomizations) deploy(d deployment, folder string, files []File, included map[string]bool) {
	one, s := k.byFolder[folder], setting{namespace: d.namespace}
	at := root{folder, d.by, d.use(folder, one != nil), !d.changes()}
	switch {
	case d.unknown:
		s = setting{altered: d.by + " deploys it to a namespace that is not known here"}
	case d.fills:
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
	with := *one
	with.retargets, with.components = one.retargets || d.own.retargets, slices.Clone(one.components)
	for _, c := range d.own.components {
		with.components = append(with.components, path.Join(folder, c))
	}
	if !at.second {
		included[folder], k.deployed[d.key()] = true, !d.unknown
		for _, r := range slices.Concat(with.resources, with.components) {
			included[r] = true
		}
	}
	k.visit(at, &with, s.under(&d.own), visits{})
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

// visits has what the visits of one root's kustomizations found: by folder, the setting that each setting becomes.
type visits map[string]map[setting]setting

// visit records what a root does to the files of a kustomization. The setting comes from what is above. It returns
// the setting that it becomes for what is below, by the kustomization's components, too: the last one has the last word.
func (k kustomizations) visit(at root, one *kustomization, s setting, seen visits) setting {
	before := seen[one.folder]
	if done, found := before[s]; found {
		return done
	}
	if len(before) > 2 && !one.component {
		return s // three settings suffice: its files differ
	}
	if before == nil {
		before = map[setting]setting{}
		seen[one.folder] = before
	}
	if one.component && at.folder != one.folder {
		k.uses[one.folder] = withOne(k.uses[one.folder], at.use)
	}
	from := s
	before[from] = s
	s = s.under(one)
	for _, c := range slices.Backward(one.components) {
		if k.byFolder[c] != nil {
			s = k.visit(at, k.byFolder[c], s, seen)
		}
	}
	before[from] = s
	for _, r := range one.resources {
		if k.byFolder[r] != nil {
			k.visit(at, k.byFolder[r], s, seen)
			continue
		}
		k.record(r, at, s)
	}
	return s
}

// record records what a root does to a file.
func (k kustomizations) record(file string, at root, s setting) {
	b := k.built[file]
	switch {
	case b == nil && at.second:
		return
	case b == nil:
		k.built[file] = &built{[]string{at.folder}, []string{at.by}, []string{at.use}, s, false}
		return
	}
	b.patchers += s.patchers
	b.roots, b.by, b.uses = withOne(b.roots, at.folder), withOne(b.by, at.by), withOne(b.uses, at.use)
	b.retargets = b.retargets || s.retargets
	if s.altered != "" && (b.altered == "" || b.unfilled) {
		b.altered, b.unfilled = s.altered, false
	}
	if differs := b.namespace != s.namespace; (b.altered == "" || b.unfilled && differs) && (differs || b.fills != s.fills) {
		b.altered, b.unfilled = "different namespaces come from "+strings.Join(b.by, " and "), !differs
	}
}

// withOne returns a list with a value, which it has once.
func withOne(list []string, value string) []string {
	if slices.Contains(list, value) {
		return list
	}
	return append(list, value)
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
func (k kustomizations) checkAltered(r *reporter, namespace string) {
	o := r.object
	b, unstated := k.built[slashed(r.doc.file)], o.stated == "" && o.ref.Namespace != ""
	switch {
	case b == nil || b.altered == "":
		if k.first != nil && unstated && namespace == "" {
			r.addAt(KustomizationAlters, o.spot, "%s may deploy it to %s: use -n %[2]s if it does", k.first.by, k.first.namespace)
		}
	case !b.unfilled || unstated:
		r.addAt(KustomizationAlters, o.spot, "%s: use %s", b.altered, strings.Join(b.uses, ", or "))
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
