package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

const (
	karpenterModule = "sigs.k8s.io/karpenter"
	kwokModule      = "sigs.k8s.io/kwok"
)

// Karpenter has the autoscaler Karpenter with its provider kwok, whose nodes are Node objects without a machine, and
// the program kwok, which makes these nodes Ready and their pods Running.
type Karpenter struct {
	Program, Kwok string
	// CRDs are the folders, in the modules, with the CRDs of Karpenter and of its provider.
	CRDs []string
	// Stages are the files, in kwok's module, that say how its nodes and pods change.
	Stages []string
}

// BuildKarpenter builds both programs from their Go modules. They are no part of a cluster, so Build does not build
// them.
func BuildKarpenter(ctx context.Context, out io.Writer) (Karpenter, error) {
	root, err := sourceRoot()
	if err != nil {
		return Karpenter{}, err
	}
	dir := filepath.Join(root, "test/cluster/components/karpenter")
	b := &planner{ctx: ctx}
	// Both programs have the name of their last folder, kwok, so they are two recipes.
	karpenter := goBuild{
		name: "karpenter", version: b.moduleVersion(dir, karpenterModule), dir: dir, own: karpenterModule + "/...",
		output: "karpenter", packages: []string{karpenterModule + "/kwok"},
	}
	kwok := goBuild{
		name: "kwok", version: b.moduleVersion(dir, kwokModule), dir: dir, own: kwokModule + "/...",
		output: "kwok", packages: []string{kwokModule + "/cmd/kwok"},
	}
	var built Karpenter
	for g, program := range map[*goBuild]*string{&karpenter: &built.Program, &kwok: &built.Kwok} {
		r := b.add(*g)
		if b.err != nil {
			return Karpenter{}, fmt.Errorf("planning to build %s: %w", g.name, b.err)
		}
		folder, err := r.provide(ctx, "components", out)
		if err != nil {
			return Karpenter{}, err
		}
		*program = filepath.Join(folder, g.output)
	}
	module, err := karpenter.moduleFolder(ctx, karpenterModule)
	if err != nil {
		return Karpenter{}, err
	}
	built.CRDs = []string{filepath.Join(module, "pkg/apis/crds"), filepath.Join(module, "kwok/apis/crds")}
	if module, err = kwok.moduleFolder(ctx, kwokModule); err != nil {
		return Karpenter{}, err
	}
	built.Stages, err = filepath.Glob(filepath.Join(module, "kustomize/stage/*/fast/[np]o*-*.yaml"))
	return built, err
}
