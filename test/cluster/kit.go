package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

// Kit is a folder of the cache that a suite makes for itself, besides what
// Build makes. It is made again when its inputs or its salt change.
type Kit struct {
	Suite   string // the folder of the cache that the kit is in
	Name    string
	Version string   // what progress messages call it
	Inputs  []string // files whose names and content count
	Salt    []string // what else counts
	Make    func(ctx context.Context, into string) error
}

// Build makes the kit, unless the cache has it, and returns its folder.
func (k Kit) Build(ctx context.Context, out io.Writer) (string, error) {
	r := &recipe{name: k.Name, version: k.Version, inputs: k.Inputs, salt: k.Salt}
	r.cook = func(ctx context.Context, into string, _ *step) error { return k.Make(ctx, into) }
	if err := r.prepare(); err != nil {
		return "", err
	}
	return r.provide(ctx, k.Suite, out)
}

// Program is a Go program that a suite needs besides what Build makes.
type Program struct {
	Suite   string // the folder of the cache that the program is in
	Name    string // of the program and of its folder
	Dir     string // of the module, in the source tree
	Package string
	Sources []string // patterns, in Dir, of what it is made from besides modules
}

// Build makes the program, unless the cache has it, and returns its path.
func (p Program) Build(ctx context.Context, out io.Writer) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	r, err := goBuild{
		name: p.Name, dir: filepath.Join(root, p.Dir), sources: p.Sources, packages: []string{p.Package}, output: p.Name,
	}.recipe(ctx)
	if err == nil {
		err = r.prepare()
	}
	if err != nil {
		return "", fmt.Errorf("planning to build %s: %w", p.Name, err)
	}
	folder, err := r.provide(ctx, p.Suite, out)
	return filepath.Join(folder, p.Name), err
}

// provide returns the recipe's folder below one of the cache, and makes it if it does not
// exist.
func (r *recipe) provide(ctx context.Context, parent string, out io.Writer) (string, error) {
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	parent = filepath.Join(cache, parent)
	if r.done(parent) {
		return r.folder(parent), nil
	}
	unlock, err := lockFolder(ctx, parent)
	if err != nil {
		return "", err
	}
	defer unlock()
	if err := r.build(ctx, parent, out); err != nil {
		return "", err
	}
	tidy(cache, out)
	return r.folder(parent), nil
}
