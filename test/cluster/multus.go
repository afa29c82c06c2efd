package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

const multusModule = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"

// BuildMultus makes the program that the conformance suite compares with:
// multus, in the form that runs once for each CNI call ("thin"). It is no part
// of a cluster, which is why Build does not make it, and returns its path.
func BuildMultus(ctx context.Context, out io.Writer) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	cache, err := cacheFolder()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "test/cluster/components/multus")
	b := &planner{ctx: ctx}
	r := b.add(goBuild{
		name: "multus", version: b.moduleVersion(dir, multusModule), dir: dir,
		packages: []string{multusModule + "/cmd/multus"},
	})
	if b.err != nil {
		return "", fmt.Errorf("planning to build multus: %w", b.err)
	}
	folder := filepath.Join(cache, "components")
	program := filepath.Join(r.folder(folder), "multus")
	if r.done(folder) {
		return program, nil
	}
	unlock, err := lockFolder(ctx, folder)
	if err != nil {
		return "", err
	}
	defer unlock()
	return program, r.build(ctx, folder, out)
}
