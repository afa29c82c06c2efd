package source

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// Files says what to read, as kubectl's flags do.
type Files struct {
	// Names are files, folders, addresses, and "-" for Stdin.
	Names     []string
	Recursive bool
	// Kustomize is the folder of a kustomization to build.
	Kustomize string
	Stdin     io.Reader
}

// extensions are those that kubectl reads in a folder.
var extensions = []string{".json", ".yaml", ".yml"}

// fetchTimeout bounds how long an address may take.
const fetchTimeout = 30 * time.Second

// Read reads all of it. A folder without manifests is an error: it is likelier
// a wrong path than a wish.
func (f Files) Read(ctx context.Context) (*Set, error) {
	set := &Set{}
	var said []string
	for _, name := range f.Names {
		read := f.readPath
		switch {
		case name == "-":
			read = f.readStdin
		case strings.HasPrefix(name, "https://") || strings.HasPrefix(name, "http://"):
			read = fetch
		}
		files, err := read(ctx, name)
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, files...)
		said = append(said, name)
	}
	if f.Kustomize != "" {
		file, err := build(f.Kustomize)
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, file)
		said = append(said, f.Kustomize+" (kustomize)")
	}
	set.Description = strings.Join(said, ", ")
	return set, unique(set.Files)
}

// unique refuses a file that was named twice: its objects would be, too.
func unique(files []File) error {
	seen := map[string]bool{}
	for _, f := range files {
		if seen[f.Name] {
			return fmt.Errorf("reading %s: it was given twice: name it once", f.Name)
		}
		seen[f.Name] = true
	}
	return nil
}

func (f Files) readStdin(context.Context, string) ([]File, error) {
	data, err := io.ReadAll(f.Stdin)
	if err != nil {
		return nil, fmt.Errorf("reading standard input: %w", err)
	}
	return []File{{File: translate.File{Name: "stdin", Data: data}, Root: "-", Rel: "stdin.yaml"}}, nil
}

func fetch(ctx context.Context, address string) ([]File, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: the server answers %s", address, response.Status)
	}
	data, err := io.ReadAll(response.Body)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", address, err)
	}
	rel := "manifest.yaml"
	if u, err := url.Parse(address); err == nil && slices.Contains(extensions, path.Ext(u.Path)) {
		rel = path.Base(u.Path)
	}
	return []File{{File: translate.File{Name: address, Data: data}, Root: address, Rel: rel}}, nil
}

func (f Files) readPath(_ context.Context, name string) ([]File, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if !info.IsDir() {
		file, err := readFile(name, name, filepath.Base(name))
		return []File{file}, err
	}
	files, err := f.readFolder(name)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("reading %s: there are no files that end in %s: %w", name, strings.Join(extensions, ", "), f.hint())
	}
	return files, err
}

func (f Files) hint() error {
	if f.Recursive {
		return errors.New("is it the right folder?")
	}
	return errors.New("its subfolders are read with -R")
}

func (f Files) readFolder(root string) ([]File, error) {
	var out []File
	err := filepath.WalkDir(root, func(name string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("reading %s: %w", root, err)
		case entry.IsDir() && name != root && (!f.Recursive || strings.HasPrefix(entry.Name(), ".")):
			return fs.SkipDir
		case entry.IsDir() || !slices.Contains(extensions, filepath.Ext(name)):
			return nil
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return fmt.Errorf("reading %s: %w", name, err)
		}
		file, err := readFile(root, name, filepath.ToSlash(rel))
		out = append(out, file)
		return err
	})
	return out, err
}

func readFile(root, name, rel string) (File, error) {
	data, err := os.ReadFile(name)
	if err != nil {
		return File{}, fmt.Errorf("reading manifests: %w", err)
	}
	return File{File: translate.File{Name: name, Data: data}, Root: root, Rel: rel, OnDisk: true}, nil
}

// build runs kustomize, as `kubectl kustomize` does.
func build(folder string) (File, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), folder)
	if err != nil {
		return File{}, fmt.Errorf("building the kustomization in %s: %w", folder, err)
	}
	data, err := resources.AsYaml()
	if err != nil {
		return File{}, fmt.Errorf("building the kustomization in %s: %w", folder, err)
	}
	return File{File: translate.File{Name: folder, Data: data}, Root: folder, Rel: "kustomized.yaml"}, nil
}
