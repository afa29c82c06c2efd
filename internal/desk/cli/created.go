package cli

import (
	"bytes"
	"fmt"
	"path"
	"path/filepath"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// addCreated stages created objects: in a file of their own in the directory of each file that
// needs them, which it adds to the kustomization of that file, if there is one. beside returns, for
// a file that needs an object, the file in whose directory the object goes, and the directory above
// which nothing is changed.
func addCreated(files staging, created []translate.Created, beside func(file string) (sibling, root string)) error {
	var targets []string
	objects := map[string][]addition{}
	named := map[string]bool{}
	texts := translate.Texts(created)
	for i, c := range created {
		for _, needs := range c.For {
			file, root := beside(needs)
			target := filepath.Join(filepath.Dir(file), createdFile)
			if objects[target] == nil {
				targets = append(targets, target)
			}
			objects[target] = append(objects[target], addition{idOf(c), texts[i]})
			if named[file] {
				continue
			}
			named[file] = true
			if err := files.name(target, file, root); err != nil {
				return err
			}
		}
	}
	for _, target := range targets {
		if err := files.append(target, objects[target]); err != nil {
			return err
		}
	}
	return nil
}

// addition is an object to add to a file.
type addition struct {
	id   id
	text []byte
}

// id identifies an object.
type id struct{ kind, namespace, name string }

// idOf returns the ID of a created object.
func idOf(c translate.Created) id {
	out := id{kind: c.Object.GetObjectKind().GroupVersionKind().Kind}
	if o, ok := c.Object.(metav1.Object); ok {
		out.namespace, out.name = o.GetNamespace(), o.GetName()
	}
	return out
}

// idIn returns the ID of the object in a document, or an empty one if it cannot be read.
func idIn(document []byte) id {
	var o metav1.PartialObjectMetadata
	_ = yaml.Unmarshal(document, &o)
	return id{o.Kind, o.Namespace, o.Name}
}

// append adds objects to a file, except those that it has already.
func (s staging) append(name string, objects []addition) error {
	text, err := s.read(name)
	if err != nil {
		return fmt.Errorf("adding to %s: %w", name, err)
	}
	existing := map[id]bool{}
	for _, document := range translate.Documents(text) {
		existing[idIn(document)] = true
	}
	var added [][]byte
	for _, o := range objects {
		if !existing[o.id] {
			existing[o.id] = true
			added = append(added, o.text)
		}
	}
	switch {
	case len(added) == 0:
	case len(text) == 0:
		s.files[name] = joined(added)
	default:
		s.files[name] = joined(append([][]byte{text}, added...))
	}
	return nil
}

// name adds a file to the resources of the nearest kustomization that has its sibling, so
// that both are applied together.
func (s staging) name(file, sibling, root string) error {
	for folder := filepath.Dir(file); ; folder = filepath.Dir(folder) {
		for _, name := range translate.KustomizationFiles() {
			text, err := s.read(filepath.Join(folder, name))
			if err != nil {
				return fmt.Errorf("adding %s to the kustomization: %w", file, err)
			}
			if text != nil {
				return s.addResource(filepath.Join(folder, name), text, file, sibling)
			}
		}
		if folder == filepath.Clean(root) || folder == filepath.Dir(folder) {
			return s.noteAbove(file, sibling, folder)
		}
	}
}

// noteAbove notes that a kustomization above the root, which is not changed, has the sibling and lacks the file.
func (s staging) noteAbove(file, sibling, root string) error {
	above, err := filepath.Abs(root)
	if err != nil || s.note == nil {
		return err
	}
	rest, err := filepath.Rel(root, sibling)
	if err != nil {
		return err
	}
	sibling = filepath.Join(above, rest)
	for filepath.Dir(above) != above {
		above = filepath.Dir(above)
		for _, base := range translate.KustomizationFiles() {
			name := filepath.Join(above, base)
			text, err := newStaging(above).onDisk(name)
			if err != nil || text == nil {
				continue // what cannot be read is not the user's
			}
			trial := newStaging(above)
			if trial.addResource(name, text, filepath.Join(filepath.Dir(sibling), createdFile), sibling) == nil && len(trial.files) > 0 {
				s.note(fmt.Sprintf("%s names %s and not %s: add it, or name the directory of the kustomization", name, filepath.Base(sibling), file))
			}
			return nil
		}
	}
	return nil
}

// addResource adds a file to a kustomization that has its sibling.
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
	s.files[name] = bytes.Clone(edited)
	return nil
}

// lists reports whether resources include a file.
func lists(resources []string, file string) bool {
	return slices.ContainsFunc(resources, func(r string) bool { return path.Clean(r) == file })
}

// relative returns a file's path relative to a kustomization.
func relative(kustomization, file string) string {
	rel, err := filepath.Rel(filepath.Dir(kustomization), file)
	if err != nil {
		return file
	}
	return filepath.ToSlash(rel)
}
