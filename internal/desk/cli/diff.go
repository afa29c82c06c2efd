package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	kdiff "k8s.io/kubectl/pkg/cmd/diff"
	"k8s.io/utils/exec"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// The exit codes of --diff are kubectl diff's.
const (
	diffFound   = 1
	diffTrouble = 2
)

// showDiff shows what the conversion changes, and writes nothing.
func (o *convertOptions) showDiff(ctx context.Context, set *manifestSet, result translate.Result) error {
	o.app.printFindings(result.Findings, o.quiet)
	folder, err := os.MkdirTemp("", "nadra-diff-")
	if err != nil {
		return fmt.Errorf("comparing: %w", err)
	}
	defer func() { _ = os.RemoveAll(folder) }()
	before, after, err := writeBoth(folder, set, result)
	if err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() { done <- (&kdiff.DiffProgram{Exec: exec.New(), IOStreams: o.app.IOStreams}).Run(before, after) }()
	select { // the program of KUBECTL_EXTERNAL_DIFF may wait for its user, and folder is to be removed
	case err := <-done:
		return diffCode(err)
	case <-ctx.Done():
		return fmt.Errorf("comparing: %w", ctx.Err())
	}
}

// writeBoth writes the changed files before and after the conversion, and created objects.
func writeBoth(folder string, set *manifestSet, result translate.Result) (before, after string, err error) {
	before, after = filepath.Join(folder, "INPUT"), filepath.Join(folder, "CONVERTED")
	if err := errors.Join(os.Mkdir(before, 0o700), os.Mkdir(after, 0o700)); err != nil {
		return "", "", fmt.Errorf("comparing: %w", err)
	}
	all, err := changes(set, result)
	if err != nil {
		return "", "", err
	}
	files := newStaging(folder)
	for i, c := range all {
		// diff does not compare subdirectories.
		name := strings.ReplaceAll(c.rel, "/", "_")
		if _, taken := files.files[filepath.Join(after, name)]; taken {
			name = fmt.Sprintf("%d_%s", i, name)
		}
		files.files[filepath.Join(after, name)] = c.after
		if c.before != nil {
			files.files[filepath.Join(before, name)] = c.before
		}
	}
	return before, after, files.write()
}

// change is a file before and after the conversion. before is nil for a new one.
type change struct {
	rel           string
	before, after []byte
}

// changes returns what changes in files as --in-place changes them, or else in the texts of the input.
func changes(set *manifestSet, result translate.Result) ([]change, error) {
	if slices.ContainsFunc(set.Files, func(f manifest) bool { return !f.OnDisk }) {
		return changedTexts(set, result), nil
	}
	was := map[string][]byte{}
	for _, f := range set.Files {
		was[filepath.Clean(f.Name)] = f.Data
	}
	files, err := inPlace(set, result, nil)
	if err != nil {
		return nil, err
	}
	var out []change
	for _, name := range slices.Sorted(maps.Keys(files.files)) {
		c := change{rel: filepath.ToSlash(name), before: was[name], after: files.files[name]}
		for _, folder := range files.folders {
			if rel, err := filepath.Rel(folder, name); err == nil && filepath.IsLocal(rel) {
				c.rel = filepath.ToSlash(rel)
			}
		}
		if c.before == nil {
			if c.before, err = files.onDisk(name); err != nil {
				return nil, err
			}
		}
		out = append(out, c)
	}
	return out, nil
}

// changedTexts returns the changed texts of an input that is not in files, and the created objects.
func changedTexts(set *manifestSet, result translate.Result) []change {
	var out []change
	for i, f := range result.Files {
		if from := set.Files[i]; !bytes.Equal(f.Data, from.Data) {
			out = append(out, change{from.Rel, from.Data, f.Data})
		}
	}
	if created := translate.Texts(result.Created); len(created) > 0 {
		out = append(out, change{rel: createdFile, after: joined(created)})
	}
	return out
}

// diffCode converts an error of kubectl to one with diff's exit code.
func diffCode(err error) error {
	var exit exec.ExitError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &exit) && exit.ExitStatus() == diffFound:
		return exitError(diffFound)
	case errors.Is(err, context.Canceled):
		return err
	}
	return fmt.Errorf("comparing: %w", err)
}
