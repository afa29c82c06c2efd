package cniexec

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	securejoin "github.com/cyphar/filepath-securejoin"
	"golang.org/x/sys/unix"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/nadra-dev/nadra/internal/atomicfile"
	"github.com/nadra-dev/nadra/pkg/api/reason"
)

const (
	// imageVolumes is the directory in which the driver's pod mounts image volumes, by their names.
	imageVolumes = "/cni-images"
	// current is the link to the copy of an image volume that plugins are run from.
	current = "current"
)

// BinDirs returns the directories that a value of --cni-bin-dirs names, paths in the host in the order of the search.
// An entry image:NAME names the plugins of an image volume, of which CopyImages makes copies; images has these names.
// BinDirs refuses relative paths, and names that no volume can have.
func BinDirs(value, stateDir string) (dirs, images []string, err error) {
	for _, entry := range strings.Split(value, ",") {
		name, isImage := strings.CutPrefix(entry, "image:")
		switch {
		case isImage && len(validation.IsDNS1123Label(name)) > 0:
			return nil, nil, fmt.Errorf("--cni-bin-dirs has %q: after image: it must have the name of a volume, of lower case letters, digits and -", entry)
		case isImage:
			dirs, images = append(dirs, filepath.Join(stateDir, "images", name, current)), append(images, name)
		case !filepath.IsAbs(entry):
			return nil, nil, fmt.Errorf("--cni-bin-dirs has %q: it must be an absolute path, or image:NAME", entry)
		default:
			dirs = append(dirs, entry)
		}
	}
	return dirs, images, nil
}

// CopyImages copies the plugins of image volumes to the state directory, into images/NAME/DIGEST. A copy survives the
// driver's pod, and is what the plugins of the host's root can see. A copy that is there already and complete stays,
// and no plugin runs from a new one until use is called. Only the driver that has the state directory may call use.
//
// CopyImages refuses volumes that are not mounted, have no plugins, or whose copies the host would not execute.
func CopyImages(hostRoot, stateDir string, names []string) (use func() error, err error) {
	return copyImages(imageVolumes, hostRoot, filepath.Join(stateDir, "images"), names)
}

func copyImages(volumes, hostRoot, images string, names []string) (use func() error, err error) {
	digests := map[string]string{}
	for _, name := range names {
		if digests[name], err = copyImage(filepath.Join(volumes, name), filepath.Join(images, name)); err != nil {
			return nil, fmt.Errorf("copying the plugins of image volume %q of --cni-bin-dirs: %w", name, err)
		}
	}
	if len(names) > 0 {
		if err := executable(hostRoot, images); err != nil {
			return nil, err
		}
	}
	return func() error { return useImages(volumes, images, digests) }, nil
}

// executable refuses a directory whose files the host does not execute.
func executable(hostRoot, dir string) error {
	inside, err := securejoin.SecureJoin(hostRoot, dir)
	if err != nil {
		return err
	}
	var in unix.Statfs_t
	if err := unix.Statfs(inside, &in); err != nil {
		return fmt.Errorf("looking for the copies of plugins in %s of the host: %w: --state-dir must be the same path in the host", dir, err)
	}
	if in.Flags&unix.ST_NOEXEC != 0 {
		return fmt.Errorf("%s is on a file system that is mounted noexec, so plugins of images cannot run: choose another --state-dir, or install the plugins on the host", dir)
	}
	return nil
}

// copyImage copies the plugins of a directory to a directory of images that is named by their digest. A copy that a
// crash has cut short, or a disk has damaged, has another digest, and is made again.
func copyImage(from, images string) (digest string, err error) {
	root, err := os.OpenRoot(from)
	if err != nil {
		return "", fmt.Errorf("%w: mount a volume of type image there in the DaemonSet nadra-node", err)
	}
	defer root.Close()
	files, digest, err := programs(root.FS())
	if err != nil {
		return "", err
	}
	if len(files) == 0 {
		return "", fmt.Errorf("%s has no executable file: name the image's directory with plugins as subPath of the mount", from)
	}
	to := filepath.Join(images, digest)
	if _, has, err := programs(os.DirFS(to)); err == nil && has == digest {
		return digest, nil
	}
	err = errors.Join(os.RemoveAll(to), atomicfile.MkdirAll(to, 0o755))
	for i := 0; i < len(files) && err == nil; i++ {
		var content []byte
		if content, err = root.ReadFile(files[i]); err == nil {
			err = atomicfile.Write(filepath.Join(to, files[i]), content, 0o755)
		}
	}
	if err != nil {
		return "", reason.Errorf(reason.StateNotWritten, "writing %s: %w", to, err)
	}
	return digest, nil
}

// programs returns the names of the executable files in a directory, and a digest of their names and contents.
func programs(dir fs.FS) (names []string, digest string, err error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return nil, "", err
	}
	sum := sha256.New()
	for _, e := range entries {
		info, err := fs.Stat(dir, e.Name())
		if err != nil || !isProgram(info) {
			continue // a directory, or a link out of the image
		}
		file, err := dir.Open(e.Name())
		if err != nil {
			return nil, "", err
		}
		of, err := digestOf(file)
		if err != nil {
			return nil, "", err
		}
		names = append(names, e.Name())
		fmt.Fprintf(sum, "%s %s\n", of, e.Name())
	}
	return names, hex.EncodeToString(sum.Sum(nil)[:16]), nil
}

// isProgram reports whether a file may be a plugin.
func isProgram(info fs.FileInfo) bool {
	return info.Mode().IsRegular() && info.Mode().Perm()&0o111 != 0
}

// digestOf returns the SHA-256 digest of a file's content, and closes the file.
func digestOf(file fs.File) (string, error) {
	sum := sha256.New()
	_, err := io.Copy(sum, file)
	return hex.EncodeToString(sum.Sum(nil)), errors.Join(err, file.Close())
}

// useImages has plugins run from the copies with these digests, and removes all other copies. A plugin that still runs
// from one keeps its file. The next driver tries again what cannot be removed.
func useImages(volumes, images string, digests map[string]string) error {
	for name, digest := range digests {
		dir := filepath.Join(images, name)
		if _, err := os.Stat(filepath.Join(dir, digest)); err != nil { // a driver in between has removed it
			if _, err := copyImage(filepath.Join(volumes, name), dir); err != nil {
				return err
			}
		}
		link := filepath.Join(dir, "new-"+current)
		err := errors.Join(atomicfile.Remove(link), os.Symlink(digest, link), os.Rename(link, filepath.Join(dir, current)), atomicfile.SyncDir(dir))
		if err != nil {
			return reason.Errorf(reason.StateNotWritten, "changing to the plugins of image volume %q: %w", name, err)
		}
		removeOthers(dir, current, digest)
	}
	removeOthers(images, slices.Collect(maps.Keys(digests))...)
	return nil
}

// removeOthers removes what a directory has beside some entries.
func removeOthers(dir string, keep ...string) {
	entries, _ := os.ReadDir(dir)
	for _, e := range entries {
		if !slices.Contains(keep, e.Name()) {
			_ = os.RemoveAll(filepath.Join(dir, e.Name()))
		}
	}
}
