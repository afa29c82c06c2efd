package translate

import (
	"bytes"
	"fmt"
	"path"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
)

const fluxGroup, argoGroup = "kustomize.toolkit.fluxcd.io", "argoproj.io"

// deployment is what an object of a GitOps controller says about a folder of its repository.
type deployment struct {
	// by names the object, and file has it.
	by, file string
	// path is the folder's path in the repository.
	path string
	// namespace is that of the folder's objects. It is only for those that state none if fills is set, as with
	// Argo CD; Flux overrules what they state.
	namespace string
	fills     bool
	// flat is set if subfolders are left out, unless the folder has a kustomization.
	flat bool
}

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
	spec := get(o.node, "spec")
	switch (GroupKind{o.group, o.ref.Kind}) {
	case GroupKind{fluxGroup, "Kustomization"}:
		return one.at(spec, get(spec, "targetNamespace"))
	case GroupKind{argoGroup, "ApplicationSet"}:
		spec = get(spec, "template", "spec")
	case GroupKind{argoGroup, "Application"}:
	default:
		return nil
	}
	var out []deployment
	for _, source := range append(items(get(spec, "sources")), get(spec, "source")) {
		one := one
		one.flat = str(get(source, "directory", "recurse")) != "true"
		if namespace := get(source, "kustomize", "namespace"); namespace != nil {
			out = append(out, one.at(source, namespace)...)
			continue
		}
		one.fills = true
		out = append(out, one.at(source, get(spec, "destination", "namespace"))...)
	}
	return out
}

// at returns the deployment of the path that a node has, unless path or namespace are unknown.
func (d deployment) at(source, namespace *yaml.Node) []deployment {
	d.path, d.namespace = str(get(source, "path")), str(namespace)
	if source == nil || d.namespace == "" || get(source, "chart") != nil || strings.ContainsAny(d.path+d.namespace, "{$*") {
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

// of returns the folder of the input that a deployment means. The repository begins at a folder above the
// deployment's file or, if the input is a part of the repository, above the input.
func (f folders) of(d deployment) (string, bool) {
	rel := strings.TrimPrefix(path.Clean("/"+d.path), "/")
	if rel == "" {
		return "", false // the repository's first folder is not known
	}
	for up := path.Dir(d.file); ; up = path.Dir(up) {
		if at := path.Join(up, rel); f[at] {
			return at, true
		}
		if up == path.Dir(up) {
			break
		}
	}
	for found := true; found; {
		if _, rel, found = strings.Cut(rel, "/"); found && f[rel] {
			return rel, true
		}
	}
	return "", false
}
