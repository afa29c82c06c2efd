package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
)

const multusModule = "gopkg.in/k8snetworkplumbingwg/multus-cni.v4"

// BuildMultus builds the program with which the conformance suite compares nadra: multus,
// in the form that runs once for each CNI call ("thin"), and returns its path.
func BuildMultus(ctx context.Context, out io.Writer) (string, error) {
	folder, err := buildMultus(ctx, "multus", out, "multus")
	return filepath.Join(folder, "multus"), err
}

// BuildThickMultus builds the two programs of Multus as most clusters have it, a daemon and
// the shim that the runtime calls, and returns their folder.
func BuildThickMultus(ctx context.Context, out io.Writer) (string, error) {
	return buildMultus(ctx, "multus-thick", out, multusDaemon, multusShim, "install_multus", "passthru-cni")
}

// buildMultus builds commands of Multus. They are no part of a cluster, so Build does not
// build them.
func buildMultus(ctx context.Context, name string, out io.Writer, commands ...string) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(root, "test/cluster/components/multus")
	b := &planner{ctx: ctx}
	r := b.add(goBuild{
		name: name, version: b.moduleVersion(dir, multusModule), dir: dir,
		packages: prefixed(multusModule+"/cmd/", commands...),
	})
	if b.err != nil {
		return "", fmt.Errorf("planning to build %s: %w", name, b.err)
	}
	return r.provide(ctx, "components", out)
}
