package cli

import (
	"cmp"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/kustomize/api/types"
	"sigs.k8s.io/kustomize/kyaml/resid"
	"sigs.k8s.io/yaml"

	"github.com/nadra-dev/nadra/pkg/translate"
)

// writeOverlay writes a kustomization over another one: a patch for each changed workload,
// and created objects.
func writeOverlay(folder, base string, result translate.Result) error {
	files := newStaging(folder)
	rel, err := relativeFolder(folder, base)
	if err != nil {
		return err
	}
	top := types.Kustomization{TypeMeta: types.TypeMeta{APIVersion: types.KustomizationVersion, Kind: types.KustomizationKind}, Resources: []string{rel}}
	if created := translate.Texts(result.Created); len(created) > 0 {
		files.files[filepath.Join(folder, createdFile)] = joined(created)
		top.Resources = append(top.Resources, createdFile)
	}
	for _, w := range result.Workloads {
		if !w.Changed {
			continue
		}
		patch := patchFor(w)
		if ambiguous(w, result.Workloads) {
			patch.Target.Namespace = w.Object.Namespace
		}
		if files.files[filepath.Join(folder, patch.Path)], err = patchText(w); err != nil {
			return err
		}
		top.Patches = append(top.Patches, patch)
	}
	if files.files[filepath.Join(folder, translate.KustomizationFiles()[0])], err = yaml.Marshal(top); err != nil {
		return fmt.Errorf("writing the overlay: %w", err)
	}
	return files.writeOutput(folder)
}

// relativeFolder returns the path of the base relative to the overlay, in kustomize's form.
func relativeFolder(folder, base string) (string, error) {
	// kustomize follows the links on the way to the overlay. The base itself may be a link that moves.
	from := canonicalAbove(folder)
	to, noTo := filepath.Abs(base)
	to = filepath.Join(canonical(filepath.Dir(to)), filepath.Base(to))
	rel, noRel := filepath.Rel(from, to)
	if err := cmp.Or(noTo, noRel); err != nil {
		return "", fmt.Errorf("writing the overlay: %w", err)
	}
	// kustomize builds no kustomization in which one of its own folders above it is a resource.
	if down, err := filepath.Rel(canonical(to), from); err == nil && filepath.IsLocal(down) {
		return "", fmt.Errorf("writing the overlay: %s is the kustomization's own directory, or in it: choose another directory", folder)
	}
	return filepath.ToSlash(rel), nil
}

// canonicalAbove returns the canonical path of a folder that may not exist yet.
func canonicalAbove(folder string) string {
	if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
		return canonical(folder)
	}
	return filepath.Join(canonicalAbove(filepath.Dir(folder)), filepath.Base(folder))
}

// ambiguous reports whether only the namespace distinguishes a workload from another one.
// Otherwise patches leave the namespace out, because the manifest may have none.
func ambiguous(w translate.Verdict, all []translate.Verdict) bool {
	same := 0
	for _, other := range all {
		if other.Object.Kind == w.Object.Kind && other.Object.Name == w.Object.Name {
			same++
		}
	}
	return same > 1
}

// patchFor returns a workload's patch without its text.
func patchFor(w translate.Verdict) types.Patch {
	group, version := resid.ParseGroupVersion(w.Object.APIVersion)
	name := strings.ToLower(w.Object.Kind) + "-" + w.Object.Name
	if w.Object.Namespace != "" {
		name = w.Object.Namespace + "-" + name
	}
	return types.Patch{
		Path: name + ".patch.yaml",
		// kustomize takes the name for a regular expression.
		Target: &types.Selector{ResId: resid.ResId{Gvk: resid.NewGvk(group, version, w.Object.Kind), Name: regexp.QuoteMeta(w.Object.Name)}},
	}
}

// patchText returns the workload's JSON Patch, as YAML. It fails if another container has the place of one that it edits.
func patchText(w translate.Verdict) ([]byte, error) {
	text, err := json.Marshal(slices.Concat(w.Tests, w.Edits))
	if err != nil {
		return nil, fmt.Errorf("writing the patch of %s: %w", w.Object, err)
	}
	return yaml.JSONToYAML(text)
}
