package cli

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// addCreated stages what is created: in a file of its own in the folder of the
// file that needs it, which is also named by the kustomization that has that
// file, if there is one. beside says which file it is for, and the folder above
// which nothing is touched.
func addCreated(files staging, created []translate.Created, beside func(translate.Created) (file, root string)) error {
	for _, c := range created {
		file, root := beside(c)
		target := filepath.Join(filepath.Dir(file), createdFile)
		added, err := files.append(target, c)
		if err != nil {
			return err
		}
		if added {
			if err := files.name(target, file, root); err != nil {
				return err
			}
		}
	}
	return nil
}

// append adds an object to a file, unless the file has it already.
func (s staging) append(name string, c translate.Created) (bool, error) {
	text, err := s.read(name)
	if err != nil {
		return false, fmt.Errorf("adding to %s: %w", name, err)
	}
	object := c.YAML()
	for _, document := range translate.Documents(text) {
		if identity(document) == identity(object) {
			return false, nil
		}
	}
	if len(text) == 0 {
		s[name] = object
		return true, nil
	}
	s[name] = joined([][]byte{text, append([]byte("---\n"), object...)})
	return true, nil
}

// id is what no two objects may share.
type id struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Namespace string `json:"namespace"`
		Name      string `json:"name"`
	} `json:"metadata"`
}

func identity(document []byte) id {
	var out id
	// A document that cannot be read is no object of ours.
	_ = yaml.Unmarshal(document, &out)
	return out
}

// kustomizations are the names that kustomize looks for.
var kustomizations = []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}

// name adds a file to the resources of the nearest kustomization that has its
// sibling, so that it is applied with it.
func (s staging) name(file, sibling, root string) error {
	for folder := filepath.Dir(file); ; folder = filepath.Dir(folder) {
		for _, name := range kustomizations {
			text, err := s.read(filepath.Join(folder, name))
			if err != nil {
				return fmt.Errorf("adding %s to the kustomization: %w", file, err)
			}
			if text != nil {
				return s.addResource(filepath.Join(folder, name), text, file, sibling)
			}
		}
		if folder == filepath.Clean(root) || folder == filepath.Dir(folder) {
			return nil
		}
	}
}

// addResource adds a file to a kustomization.
func (s staging) addResource(name string, text []byte, file, sibling string) error {
	var content struct {
		Resources []string `json:"resources"`
	}
	if err := yaml.Unmarshal(text, &content); err != nil {
		return fmt.Errorf("adding %s to %s: %w", file, name, err)
	}
	resource, other := relative(name, file), relative(name, sibling)
	if slices.Contains(content.Resources, resource) || filepath.Base(sibling) != createdFile && !lists(content.Resources, other) {
		return nil
	}
	edit := translate.Edit{Op: translate.Add, Path: translate.Path{"resources", "-"}, Value: resource}
	if len(content.Resources) == 0 {
		edit = translate.Edit{Op: translate.Add, Path: translate.Path{"resources"}, Value: []any{resource}}
	}
	edited, err := translate.Edited(translate.File{Name: name, Data: text}, []translate.Edit{edit})
	if err != nil {
		return fmt.Errorf("adding %s to a kustomization: %w: add it by hand", file, err)
	}
	s[name] = bytes.Clone(edited)
	return nil
}

// lists reports whether resources have a file.
func lists(resources []string, file string) bool {
	return slices.ContainsFunc(resources, func(r string) bool { return path.Clean(r) == file })
}

// relative is the way from a kustomization to a file.
func relative(kustomization, file string) string {
	rel, err := filepath.Rel(filepath.Dir(kustomization), file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}
