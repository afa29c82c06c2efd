package translate

import (
	"bytes"
	"maps"
	"path"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

const fluxGroup, argoGroup = "kustomize.toolkit.fluxcd.io", "argoproj.io"

// deployment is what an object of a GitOps controller says about a folder of its repository.
type deployment struct {
	// by names the object, and file has it.
	by, file string
	// path is the folder's path in the repository, or a pattern of paths, without the excluded ones.
	path    string
	exclude []string
	// namespace is that of the folder's objects. It is only for those that state none if fills is set, as with
	// Argo CD; Flux overrules what they state. That of an ApplicationSet may be a template.
	namespace string
	fills     bool
	// unknown is set if the input does not show the namespace. own is what else the deployment does.
	unknown bool
	own     kustomization
	// below is how many folders the path is below one that a generator finds, or -1.
	below int
	// flat is set if subfolders are left out, unless the folder has a kustomization.
	flat bool
}

// key identifies the object of the deployment.
func (d deployment) key() string { return d.file + ": " + d.by }

// changes reports whether the deployment may change names or namespaces.
func (d deployment) changes() bool {
	return d.namespace != "" || d.unknown || d.own.alters != "" || d.own.retargets || len(d.own.components)+len(d.own.pods) > 0
}

// isFirst reports whether the deployment deploys the first folder of a repository.
func (d deployment) isFirst() bool { return path.Clean("/"+d.path) == "/" }

// deploymentsIn returns the deployments in files.
func deploymentsIn(files []File) []deployment {
	var out []deployment
	for _, f := range files {
		if !bytes.Contains(f.Data, []byte(fluxGroup)) && !bytes.Contains(f.Data, []byte(argoGroup)) {
			continue
		}
		for _, part := range yamledit.Split(f.Data) {
			d, err := parseDocument(f.Name, part)
			if err != nil {
				continue
			}
			for _, o := range objects(d, "") {
				out = append(out, deploymentsOf(o)...)
			}
		}
	}
	return out
}

// deploymentsOf returns the deployments of an object.
func deploymentsOf(o object) []deployment {
	one := deployment{by: o.ref.String(), file: slashed(o.doc.file), below: -1}
	spec, found := get(o.node, "spec"), []string{""}
	switch (GroupKind{o.group, o.ref.Kind}) {
	case GroupKind{fluxGroup, "Kustomization"}:
		one.at(spec, spec, get(spec, "targetNamespace"))
		return []deployment{one.cut()}
	case GroupKind{argoGroup, "ApplicationSet"}:
		found, one.exclude = generated(get(spec, "generators"), 0)
		one.unknown = patchesDeployment.MatchString(str(get(spec, "templatePatch")))
		spec = get(spec, "template", "spec")
	case GroupKind{argoGroup, "Application"}:
	default:
		return nil
	}
	var out []deployment
	for _, source := range append(items(get(spec, "sources")), get(spec, "source")) {
		one := one
		one.flat = str(get(source, "directory", "recurse")) != "true"
		namespace := get(source, "kustomize", "namespace")
		if namespace == nil {
			one.fills, namespace = true, get(spec, "destination", "namespace")
		}
		one.at(source, get(source, "kustomize"), namespace)
		if one.path == "" || get(source, "chart") != nil || one.isFirst() && get(source, "helm") != nil {
			continue // it is a chart, or has the values of one
		}
		for _, folder := range found {
			out = append(out, one.of(folder))
		}
	}
	return out
}

// The templates of an ApplicationSet that stand for the folder that its generator has found, and for its name.
var (
	folderTemplate    = regexp.MustCompile(`\{\{-?\s*\.?path(\.path)?\s*-?\}\}`)
	nameTemplate      = regexp.MustCompile(`\{\{-?\s*\.?path\.basename(Normalized)?\s*-?\}\}`)
	patchesDeployment = regexp.MustCompile(`\b(namespace|namePrefix|nameSuffix|components|patches|path|sources?)["']?\s*:`)
)

// generated returns the patterns of the folders that the git generators among generators find, or an empty one
// without such a generator, and the patterns of those that they leave out. Generators may combine others.
func generated(generators *yaml.Node, depth int) (found, excluded []string) {
	for _, generator := range items(generators) {
		for _, directory := range items(get(generator, "git", "directories")) {
			if pattern := str(get(directory, "path")); str(get(directory, "exclude")) == "true" {
				excluded = append(excluded, pattern)
			} else {
				found = append(found, pattern)
			}
		}
		for _, file := range items(get(generator, "git", "files")) {
			found = append(found, path.Dir(str(get(file, "path"))))
		}
		for _, combined := range []string{"matrix", "merge"} {
			if inner := get(generator, combined, "generators"); depth < 2 && inner != nil {
				f, e := generated(inner, depth+1)
				found, excluded = append(found, f...), append(excluded, e...)
			}
		}
	}
	found = slices.DeleteFunc(found, func(pattern string) bool { return pattern == "" })
	if depth == 0 && len(found) == 0 {
		found = []string{""}
	}
	return found, excluded
}

// of returns the deployment of the folders that a generator finds.
func (d deployment) of(pattern string) deployment {
	if pattern == "" {
		return d.cut()
	}
	for _, template := range []*regexp.Regexp{nameTemplate, folderTemplate} {
		value := pattern
		if template == nameTemplate {
			value = path.Base(pattern)
		}
		if at := template.FindStringIndex(d.path); at != nil {
			d.below = strings.Count(strings.TrimRight(d.path[at[1]:], "/"), "/")
			d.path = d.path[:at[0]] + value + d.path[at[1]:]
		}
	}
	return d.cut()
}

// cut returns the deployment of the folder above the first one whose name is a template, to an unknown namespace.
func (d deployment) cut() deployment {
	d.path = strings.ReplaceAll(d.path, "**", "{")
	if at := strings.IndexAny(d.path, "{$"); at >= 0 {
		d.path, d.unknown, d.flat = d.path[:strings.LastIndexByte("/"+d.path[:at], '/')], true, false
		if d.isFirst() {
			d.path = "{" // it may be any folder
		}
	}
	return d
}

// in returns the deployment of one of the folders that it finds.
func (d deployment) in(folder string) deployment {
	if d.below >= 0 {
		d.namespace = nameTemplate.ReplaceAllLiteralString(d.namespace, path.Base(d.generator(folder)))
	}
	d.unknown = d.unknown || strings.ContainsAny(d.namespace, "{$")
	if d.unknown {
		d.namespace = "NAMESPACE"
	}
	return d
}

// generator returns the folder that the generator has found, of one that is deployed.
func (d deployment) generator(folder string) string {
	for range d.below {
		folder = path.Dir(folder)
	}
	return folder
}

// at records the path and the namespace of the deployment, and what else it does.
func (d *deployment) at(source, kustomize, namespace *yaml.Node) {
	d.path, d.namespace = str(get(source, "path")), str(namespace)
	var text kustomizationText
	if decodeNode(kustomize, &text) {
		d.own = *text.read(d.by, "", nil)
		d.own.id = d.key()
	}
	d.own.namespace = ""
}

// use returns the flags by which a command reads what the deployment deploys from a folder. What the deployment itself
// changes only its controller's program renders.
func (d deployment) use(folder string, kustomized bool) string {
	if d.own.alters != "" || len(d.own.components)+len(d.own.pods) > 0 {
		render := "argocd app manifests"
		if strings.HasPrefix(d.by, "Kustomization ") {
			render = "flux build kustomization"
		}
		return "-f - with what " + render + " prints for " + d.by + ", or leave its pods to the webhook"
	}
	use := "-R -f " + folder
	if kustomized {
		use = "-k " + folder
	}
	if d.namespace != "" {
		use += " -n " + d.namespace
	}
	return use
}

// folders has the folders of the input's files, and those above them.
type folders map[string]bool

func foldersOf(files []File) folders {
	out := folders{}
	for _, f := range files {
		for at := path.Dir(slashed(f.Name)); !out[at]; at = path.Dir(at) {
			out[at] = true
		}
	}
	return out
}

// of returns the folders of the input that a deployment means. The repository begins at a folder above the
// deployment's file or, if the input is a part of the repository, above the input.
func (f folders) of(d deployment) []string {
	rel := strings.TrimPrefix(path.Clean("/"+d.path), "/")
	if rel == "" || strings.ContainsAny(rel, "{$") {
		return nil // the repository's first folder, or a template: it is not known
	}
	for up := path.Dir(d.file); ; up = path.Dir(up) {
		if found := f.matching(up, rel, d); len(found) > 0 {
			return found
		}
		if up == path.Dir(up) {
			break
		}
	}
	for below := true; below; {
		if _, rel, below = strings.Cut(rel, "/"); below && f[rel] {
			return []string{rel}
		}
	}
	return nil
}

// matching returns the folders below a folder that match a pattern and none of the excluded ones, sorted.
func (f folders) matching(up, pattern string, d deployment) []string {
	if at := path.Join(up, pattern); f[at] {
		return []string{at}
	}
	if !strings.Contains(pattern, "*") {
		return nil
	}
	is := func(folder, pattern string) bool {
		match, err := path.Match(path.Join(up, pattern), folder)
		return err == nil && match
	}
	var out []string
	for _, folder := range slices.Sorted(maps.Keys(f)) {
		if is(folder, pattern) && !slices.ContainsFunc(d.exclude, func(e string) bool { return is(d.generator(folder), e) }) {
			out = append(out, folder)
		}
	}
	return out
}
