package cluster

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// recipe makes one folder of the cache. The folder's name has the key: other inputs make
// another folder, so nothing stale is ever used.
type recipe struct {
	name    string   // component, and the folder's name before the key
	version string   // what progress messages call it
	inputs  []string // files whose names and content are part of the key
	salt    []string // further parts of the key: flags, versions, other keys
	cook    func(ctx context.Context, into string, s *step) error

	key string
}

// prepare computes the key.
func (r *recipe) prepare() error {
	sum := sha256.New()
	for _, part := range append([]string{r.name, r.version}, r.salt...) {
		fmt.Fprintf(sum, "%d:%s\n", len(part), part)
	}
	for _, path := range r.inputs {
		if err := hashFile(sum, path); err != nil {
			return fmt.Errorf("computing the cache key of %s: %w", r.name, err)
		}
	}
	r.key = hex.EncodeToString(sum.Sum(nil))[:16]
	return nil
}

// hashFile adds a file to sum. Only the base name counts, so that a copy of
// the tree at another path shares the cache.
func hashFile(sum io.Writer, path string) error {
	content, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	fmt.Fprintf(sum, "%s %d\n", filepath.Base(path), len(content))
	_, err = sum.Write(content)
	return err
}

func (r *recipe) folder(cache string) string {
	return filepath.Join(cache, r.name+"-"+r.key)
}

// done reports whether the recipe's folder exists, and notes its use.
func (r *recipe) done(cache string) bool { return use(r.folder(cache)) }

// build fills a temporary folder and renames it at the end, so that a folder with its name
// is complete.
func (r *recipe) build(ctx context.Context, cache string, out io.Writer) error {
	if r.done(cache) {
		return nil
	}
	partial, err := r.emptyFolder(cache)
	if err != nil {
		return fmt.Errorf("building %s: %w", r.name, err)
	}
	s := announce(out, strings.TrimSpace("building "+r.name+" "+r.version))
	if err := r.cook(ctx, partial, s); err != nil {
		s.finish("stopped")
		return fmt.Errorf("building %s: %w", r.name, err)
	}
	s.finish("done")
	// Unpacking may have set an old time of the folder.
	now := time.Now()
	if err := os.Chtimes(partial, now, now); err != nil {
		return fmt.Errorf("storing %s: %w", r.name, err)
	}
	if err := os.Rename(partial, r.folder(cache)); err != nil {
		return fmt.Errorf("storing %s: %w", r.name, err)
	}
	return nil
}

// emptyFolder creates a folder with a new name, so that processes of an interrupted build
// cannot write into it, and removes the folder of that build.
func (r *recipe) emptyFolder(cache string) (string, error) {
	const partial = ".partial-*"
	left, err := filepath.Glob(filepath.Join(cache, r.name+"-"+partial))
	if err != nil {
		return "", err
	}
	for _, folder := range left {
		if err := os.RemoveAll(folder); err != nil {
			return "", err
		}
	}
	folder, err := os.MkdirTemp(cache, r.name+"-"+partial)
	if err != nil {
		return "", err
	}
	return folder, os.Chmod(folder, 0o755)
}
