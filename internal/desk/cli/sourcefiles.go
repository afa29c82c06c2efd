package cli

import (
	"bytes"
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

// manifestFiles names manifests to read, like kubectl's flags.
type manifestFiles struct {
	// Names are files, folders, addresses, and "-" for Stdin.
	Names     []string
	Recursive bool
	// Kustomize is the folder of a kustomization to build.
	Kustomize string
	Stdin     io.Reader
	// LeaveOut, unless nil, is called with what is not read in a folder, and why.
	LeaveOut func(name, why string)
}

// extensions are the extensions of files that kubectl reads in a folder.
var extensions = []string{".json", ".yaml", ".yml"}

// fetchTimeout limits the time to read an address.
const fetchTimeout = 30 * time.Second

// read reads the manifests. A folder without manifests is an error, because it is probably
// the wrong path.
func (f manifestFiles) read(ctx context.Context) (*manifestSet, error) {
	set := &manifestSet{}
	if f.LeaveOut == nil {
		f.LeaveOut = func(string, string) {}
	}
	var described []string
	total := 0
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
		for _, file := range files {
			file.Data = inUTF8(file.Data)
			total += len(file.Data)
			set.Files = append(set.Files, file)
		}
		described = append(described, name)
		if err := checkTotal(len(set.Files), total); err != nil {
			return nil, fmt.Errorf("reading %s: %w", name, err)
		}
	}
	if f.Kustomize != "" {
		file, err := build(f.Kustomize)
		if err != nil {
			return nil, err
		}
		set.Files = append(set.Files, file)
		described = append(described, f.Kustomize+" (kustomize)")
	}
	set.Description = strings.Join(described, ", ")
	var err error
	set.Files, err = f.unique(set.Files)
	return set, err
}

// unique rejects a file that was named twice, in whatever way, because its objects would be read twice. It leaves out
// symbolic links to other files of the same folder.
func (f manifestFiles) unique(files []manifest) ([]manifest, error) {
	paths, seen := make([]string, len(files)), map[string]bool{}
	for i, file := range files {
		paths[i] = file.Name
		if file.OnDisk {
			paths[i] = filepath.Join(canonical(filepath.Dir(file.Name)), filepath.Base(file.Name))
		}
		if seen[paths[i]] {
			return nil, fmt.Errorf("reading %s: the file was named twice: name it once", file.Name)
		}
		seen[paths[i]] = true
	}
	out := files[:0]
	for i, file := range files {
		target := canonical(file.Name)
		if file.OnDisk && target != paths[i] && filepath.Dir(target) == filepath.Dir(paths[i]) && seen[target] {
			f.LeaveOut(file.Name, "it is a symbolic link to "+filepath.Base(target)+", which is read")
			continue
		}
		out = append(out, file)
	}
	return out, nil
}

// canonical returns the absolute path of a file without symbolic links, or the path as it is if there is none.
func canonical(name string) string {
	full, err := filepath.Abs(name)
	if err == nil {
		full, err = filepath.EvalSymlinks(full)
	}
	if err != nil {
		return name
	}
	return full
}

// readStdin reads standard input.
func (f manifestFiles) readStdin(context.Context, string) ([]manifest, error) {
	data, err := limited(f.Stdin, "standard input")
	if err == nil && len(bytes.TrimSpace(data)) == 0 {
		err = errors.New("reading standard input: it is empty, so no objects were passed: check the command before the pipe")
	}
	if err != nil {
		return nil, err
	}
	return []manifest{{File: translate.File{Name: "stdin", Data: data}, Rel: "stdin.yaml"}}, nil
}

// fetch reads an address.
func fetch(ctx context.Context, address string) ([]manifest, error) {
	ctx, cancel := context.WithTimeout(ctx, fetchTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", address, err)
	}
	response, err := http.DefaultClient.Do(request)
	var refused *url.Error
	if errors.As(err, &refused) {
		err = refused.Err // the rest repeats the address
	}
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w: check the address, and the proxy", address, err)
	}
	defer func() { _ = response.Body.Close() }()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("reading %s: the server answered %s", address, response.Status)
	}
	data, err := limited(response.Body, address)
	if err != nil {
		return nil, err
	}
	rel := "manifest.yaml"
	if u, err := url.Parse(address); err == nil && slices.Contains(extensions, path.Ext(u.Path)) {
		rel = path.Base(u.Path)
	}
	return []manifest{{File: translate.File{Name: address, Data: data}, Rel: rel}}, nil
}

// readPath reads a file or a folder.
func (f manifestFiles) readPath(_ context.Context, name string) ([]manifest, error) {
	info, err := os.Stat(name)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	if !info.IsDir() {
		data, err := readFile(name)
		if err != nil {
			return nil, fmt.Errorf("reading manifests: %w", err)
		}
		return []manifest{{File: translate.File{Name: name, Data: data}, Rel: filepath.Base(name), OnDisk: info.Mode().IsRegular()}}, nil
	}
	files, err := f.readFolder(name)
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("reading %s: the folder has no files that end in %s: %w", name, strings.Join(extensions, ", "), f.hint())
	}
	return files, err
}

// hint returns the remedy for a folder without manifests.
func (f manifestFiles) hint() error {
	if f.Recursive {
		return errors.New("check the folder's name")
	}
	return errors.New("use -R to read its subfolders")
}

// gitFolder has what git keeps about a repository, and no manifests.
const gitFolder = ".git"

// readFolder reads the manifests of a folder. It follows symbolic links to files inside of it, and not those to
// folders, whose files it may have already.
func (f manifestFiles) readFolder(folder string) ([]manifest, error) {
	root, err := os.OpenRoot(folder)
	if err != nil {
		return nil, fmt.Errorf("reading manifests: %w", err)
	}
	defer func() { _ = root.Close() }()
	var out []manifest
	var others others
	total := 0
	err = fs.WalkDir(root.FS(), ".", func(rel string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return fmt.Errorf("reading %s: %w", folder, err)
		case entry.IsDir() && rel != "." && (!f.Recursive || entry.Name() == gitFolder):
			return fs.SkipDir
		case entry.IsDir() && strings.Count(rel, "/") >= maxDepth:
			return fmt.Errorf("reading %s: %s has more than %d levels: name its subfolders", folder, rel, maxDepth)
		case entry.IsDir():
			return nil
		case f.Recursive && linksToFolder(root, rel, entry):
			f.LeaveOut(filepath.Join(folder, filepath.FromSlash(rel)), "it is a symbolic link to a folder: name the folder with -f, too")
			return nil
		case !slices.Contains(extensions, path.Ext(rel)) && !isHelper(rel):
			if others.nameNetworks(root, rel, entry) {
				f.LeaveOut(filepath.Join(folder, filepath.FromSlash(rel)), others.why())
			}
			return nil
		}
		data, err := readInside(root, filepath.FromSlash(rel))
		if err != nil {
			return err
		}
		name := filepath.Join(folder, filepath.FromSlash(rel))
		out = append(out, manifest{File: translate.File{Name: name, Data: data}, Rel: rel, OnDisk: true})
		total += len(data)
		return checkTotal(len(out), total)
	})
	return out, err
}

// isHelper reports whether a file has parts of a chart's templates. It is no manifest, and may name networks.
func isHelper(rel string) bool {
	return path.Ext(rel) == ".tpl" && slices.Contains(strings.Split(path.Dir(rel), "/"), "templates")
}

// linksToFolder reports whether a file of a folder is a symbolic link to another folder.
func linksToFolder(root *os.Root, rel string, entry fs.DirEntry) bool {
	if entry.Type()&(fs.ModeSymlink|fs.ModeIrregular) == 0 { // irregular: a junction of Windows
		return false
	}
	info, err := os.Stat(filepath.Join(root.Name(), filepath.FromSlash(rel)))
	return err == nil && info.IsDir()
}

// checkTotal refuses more files, or more bytes in all, than a command reads.
func checkTotal(files, total int) error {
	if files > maxFiles {
		return fmt.Errorf("there are more than %d files: name subfolders one by one", maxFiles)
	}
	if total > maxTotal {
		return fmt.Errorf("the files have more than %d MiB together: name subfolders one by one", maxTotal>>20)
	}
	return nil
}

// regularFiles is the machine's file system, of which a kustomization reads only regular files.
type regularFiles struct{ filesys.FileSystem }

// ReadFile reads a file.
func (regularFiles) ReadFile(name string) ([]byte, error) {
	root, err := os.OpenRoot(filepath.Dir(name))
	if err != nil {
		return nil, err
	}
	text, err := readInside(root, filepath.Base(name))
	return text, errors.Join(err, root.Close())
}

// build builds a kustomization like `kubectl kustomize`.
func build(folder string) (manifest, error) {
	resources, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(regularFiles{filesys.MakeFsOnDisk()}, folder)
	if err != nil {
		return manifest{}, fmt.Errorf("building the kustomization in %s: %w", folder, err)
	}
	data, err := resources.AsYaml()
	if err != nil {
		return manifest{}, fmt.Errorf("building the kustomization in %s: %w", folder, err)
	}
	return manifest{File: translate.File{Name: folder, Data: data}, Rel: "kustomized.yaml"}, nil
}
