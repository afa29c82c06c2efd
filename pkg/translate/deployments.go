package translate

import (
	"bytes"
	"fmt"
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
	// flat is set if subfolders are left out, unless the folder has a kustomization.
	flat bool
}

// key identifies the object of the deployment.
func (d deployment) key() string { return d.file + ": " + d.by }

// deploymentsIn returns the deployments to a known namespace in files.
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
	one := deployment{by: o.ref.String(), file: slashed(o.doc.file)}
	spec, found := get(o.node, "spec"), []string{""}
	switch (GroupKind{o.group, o.ref.Kind}) {
	case GroupKind{fluxGroup, "Kustomization"}:
		return one.at(spec, get(spec, "targetNamespace"))
	case GroupKind{argoGroup, "ApplicationSet"}:
		found, one.exclude = generated(spec)
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
		for _, at := range one.at(source, namespace) {
			for _, folder := range found {
				at.path = folderTemplate.ReplaceAllLiteralString(at.path, folder)
				out = append(out, at)
			}
		}
	}
	return out
}

// The templates of an ApplicationSet that stand for the folder that its generator has found, and for its name.
var (
	folderTemplate = regexp.MustCompile(`\{\{-?\s*\.?path(\.path)?\s*-?\}\}`)
	nameTemplate   = regexp.MustCompile(`\{\{-?\s*\.?path\.basename(Normalized)?\s*-?\}\}`)
)

// generated returns the patterns of the folders that the git generators of an ApplicationSet find, or an empty one
// without such a generator, and the patterns of those that they leave out.
func generated(spec *yaml.Node) (found, excluded []string) {
	for _, generator := range items(get(spec, "generators")) {
		for _, directory := range items(get(generator, "git", "directories")) {
			if pattern := str(get(directory, "path")); str(get(directory, "exclude")) == "true" {
				excluded = append(excluded, pattern)
			} else {
				found = append(found, pattern)
			}
		}
	}
	if len(found) == 0 {
		found = []string{""}
	}
	return found, excluded
}

// in returns the deployment of one of the folders that it finds. known is false if its namespace is not known.
func (d deployment) in(folder string) (one deployment, known bool) {
	d.namespace = nameTemplate.ReplaceAllLiteralString(d.namespace, path.Base(folder))
	return d, !strings.ContainsAny(d.namespace, "{$")
}

// at returns the deployment of the path that a node has, unless path or namespace are unknown.
func (d deployment) at(source, namespace *yaml.Node) []deployment {
	d.path, d.namespace = str(get(source, "path")), str(namespace)
	if source == nil || d.namespace == "" || get(source, "chart") != nil {
		return nil
	}
	return []deployment{d}
}

// use returns the flags by which a command reads what the deployment deploys from a folder.
func (d deployment) use(folder string, kustomized bool) string {
	if kustomized {
		return fmt.Sprintf("-k %s -n %s", folder, d.namespace)
	}
	return fmt.Sprintf("-R -f %s -n %s", folder, d.namespace)
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
		if found := f.matching(up, rel, d.exclude); len(found) > 0 {
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
func (f folders) matching(up, pattern string, exclude []string) []string {
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
		if is(folder, pattern) && !slices.ContainsFunc(exclude, func(e string) bool { return is(folder, e) }) {
			out = append(out, folder)
		}
	}
	return out
}
