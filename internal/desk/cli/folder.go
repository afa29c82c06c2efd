package cli

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// createdFile is the name of the file for created objects.
const createdFile = "nadra.yaml"

// inPlace stages changed files, and created objects beside them. note is called with what is left to do.
func inPlace(set *manifestSet, result translate.Result, note func(string)) (staging, error) {
	roots, files := map[string]string{}, newStaging()
	files.note = note
	for _, f := range set.Files {
		roots[f.Name] = folderOf(f)
		if !slices.Contains(files.folders, folderOf(f)) {
			files.folders = append(files.folders, folderOf(f))
		}
	}
	for i, f := range result.Files {
		if !bytes.Equal(f.Data, set.Files[i].Data) {
			files.files[filepath.Clean(f.Name)] = f.Data
		}
	}
	beside := func(file string) (sibling, root string) { return file, roots[file] }
	return files, addCreated(files, result.Created, beside)
}

// addNeighbours adds files of the input's folders that are not part of the input: kustomizations, and the
// objects that earlier conversions created.
func addNeighbours(set *manifestSet) error {
	known := map[string]bool{}
	for _, f := range set.Files {
		known[filepath.Clean(f.Name)] = true
	}
	for _, f := range set.Files {
		if !f.OnDisk {
			continue
		}
		for _, base := range append([]string{createdFile}, translate.KustomizationFiles()...) {
			name := filepath.Join(filepath.Dir(f.Name), base)
			if known[name] {
				continue
			}
			known[name] = true
			text, err := newStaging(folderOf(f)).read(name)
			if err != nil {
				return err
			}
			if text != nil {
				set.Beside = append(set.Beside, translate.File{Name: name, Data: text})
			}
		}
	}
	return nil
}

// folderOf returns the directory in which a file was found.
func folderOf(f manifest) string {
	return filepath.Clean(strings.TrimSuffix(filepath.Clean(f.Name), filepath.FromSlash(f.Rel)))
}

// writeFolder writes all files to another directory, with the same relative paths. For a live
// cluster, it writes only changed files.
func writeFolder(folder string, set *manifestSet, result translate.Result) error {
	files := newStaging(folder)
	for i, f := range result.Files {
		from := set.Files[i]
		if set.Live && bytes.Equal(f.Data, from.Data) {
			continue
		}
		name := filepath.Join(folder, filepath.FromSlash(from.Rel))
		if _, taken := files.files[name]; taken {
			return fmt.Errorf("writing %s: several directories of the input have a file with this name: convert one directory at a time", name)
		}
		files.files[name] = f.Data
	}
	beside := func(string) (sibling, root string) { return filepath.Join(folder, createdFile), folder }
	if err := addCreated(files, result.Created, beside); err != nil {
		return err
	}
	return files.writeOutput(folder)
}
