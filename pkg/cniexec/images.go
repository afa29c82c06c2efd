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
	// temporaryPrefix begins the names of what is not complete.
	temporaryPrefix = "new-"
	// maxPrograms and maxProgramBytes limit what is copied of an image volume, and freeBytes is what a copy leaves
	// of the state directory's file system for the records.
	maxPrograms, maxProgramBytes, freeBytes = 200, 1 << 30, 64 << 20
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
// CopyImages refuses volumes that are not mounted, have no plugins or too many, or whose copies the host would not
// execute, or has no room for.
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

// copyImage copies the plugins of a directory to a directory of images that is named by their digest, and is there only
// as a whole. A copy that a disk has damaged has another digest, and is made again.
func copyImage(from, images string) (digest string, err error) {
	root, err := os.OpenRoot(from)
	if err != nil {
		return "", fmt.Errorf("%w: mount a volume of type image there in the DaemonSet nadra-node", err)
	}
	defer root.Close()
	p, err := programsOf(root.FS())
	switch {
	case err != nil:
		return "", fmt.Errorf("%s: %w", from, err)
	case len(p.names) == 0:
		return "", fmt.Errorf("%s has no executable file: name the image's directory with plugins as subPath of the mount, which containerd before 2.2 and CRI-O before 1.33 ignore", from)
	}
	if has, err := programsOf(os.DirFS(filepath.Join(images, p.digest))); err == nil && has.digest == p.digest {
		return p.digest, nil
	}
	if err := p.copy(root, images); err != nil {
		return "", reason.Errorf(reason.StateNotWritten, "writing the copy %s in %s: %w", p.digest, images, err)
	}
	return p.digest, nil
}

// copy copies the files to a temporary directory, and renames it when it is complete. After an error nothing is left.
func (p programs) copy(root *os.Root, images string) error {
	to, temporary := filepath.Join(images, p.digest), filepath.Join(images, temporaryPrefix+p.digest)
	var disk unix.Statfs_t
	if err := errors.Join(atomicfile.MkdirAll(images, 0o755), unix.Statfs(images, &disk)); err != nil {
		return err
	}
	if free := disk.Bavail * uint64(disk.Bsize); free < uint64(p.bytes)+freeBytes {
		return fmt.Errorf("its file system has %d MiB free, and the plugins need %d MiB and %d MiB for the state: make room", free>>20, p.bytes>>20, freeBytes>>20)
	}
	defer func() { _ = os.RemoveAll(temporary) }()
	if err := errors.Join(os.RemoveAll(temporary), atomicfile.MkdirAll(temporary, 0o755)); err != nil {
		return err
	}
	for _, name := range p.names {
		content, err := root.ReadFile(name)
		if err == nil {
			err = atomicfile.Write(filepath.Join(temporary, name), content, 0o755)
		}
		if err != nil {
			return err
		}
	}
	return errors.Join(remove(images, p.digest), os.Rename(temporary, to), atomicfile.SyncDir(images))
}

// programs are the executable files in a directory.
type programs struct {
	names []string
	bytes int64
	// digest is of their names and contents.
	digest string
}

// programsOf returns the executable files in a directory. It leaves out links that lead out of the directory or nowhere.
// It refuses a file that exceeds a limit before it reads the file: a sparse one may have exabytes.
func programsOf(dir fs.FS) (out programs, err error) {
	entries, err := fs.ReadDir(dir, ".")
	if err != nil {
		return out, err
	}
	sum := sha256.New()
	for _, e := range entries {
		info, err := fs.Stat(dir, e.Name())
		if err != nil && e.Type()&fs.ModeSymlink == 0 {
			return out, err
		}
		if err != nil || !isProgram(info) {
			continue
		}
		if len(out.names) == maxPrograms || info.Size() > maxProgramBytes-out.bytes {
			return out, fmt.Errorf("it has more than %d executable files, or of more than %d MiB: name a directory with plugins only as subPath of the mount", maxPrograms, maxProgramBytes>>20)
		}
		file, err := dir.Open(e.Name())
		if err != nil {
			return out, err
		}
		of, err := digestOf(file)
		if err != nil {
			return out, err
		}
		out.names, out.bytes = append(out.names, e.Name()), out.bytes+info.Size()
		fmt.Fprintf(sum, "%s %s\n", of, e.Name())
	}
	out.digest = hex.EncodeToString(sum.Sum(nil)[:16])
	return out, nil
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
			if digest, err = copyImage(filepath.Join(volumes, name), dir); err != nil {
				return err
			}
		}
		link := filepath.Join(dir, temporaryPrefix+current)
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
			_ = remove(dir, e.Name())
		}
	}
}

// remove removes an entry of a directory, which has it as a whole or not at all meanwhile. What is left after a crash is
// removed by the next driver.
func remove(dir, name string) error {
	removed := filepath.Join(dir, temporaryPrefix+"removed-"+name)
	if err := os.RemoveAll(removed); err != nil {
		return err
	}
	if err := os.Rename(filepath.Join(dir, name), removed); err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	return os.RemoveAll(removed)
}
