package cluster

import (
	"context"
	"fmt"
	"io"
	"path/filepath"
	"strings"
)

const (
	containerdModule = "github.com/containerd/containerd/v2"
	nriModule        = "github.com/containerd/nri"
)

// containerdBuild describes containerd with the libraries of the go.mod in dir.
func containerdBuild(b *planner, dir string) goBuild {
	version := b.moduleVersion(dir, containerdModule)
	return goBuild{
		name: filepath.Base(dir), version: version, dir: dir,
		tags:     "no_btrfs no_zfs no_devmapper no_tracing no_systemd no_rdt urfave_cli_no_docs netgo osusergo",
		ldflags:  " -X " + containerdModule + "/version.Version=" + strings.TrimPrefix(version, "v"),
		packages: prefixed(containerdModule+"/cmd/", "containerd", "containerd-shim-runc-v2", "ctr"),
	}
}

// BuildContainerdWithNewestNRI builds containerd with the newest release of NRI
// instead of the one that it ships, and returns its folder, for
// Options.Containerd. It is no part of a cluster, so Build does not build it.
func BuildContainerdWithNewestNRI(ctx context.Context, out io.Writer) (string, error) {
	root, err := sourceRoot()
	if err != nil {
		return "", err
	}
	b := &planner{ctx: ctx}
	r := b.add(containerdBuild(b, filepath.Join(root, "test/cluster/components/containerd-newest-nri")))
	if b.err != nil {
		return "", fmt.Errorf("planning to build containerd with the newest NRI: %w", b.err)
	}
	return r.provide(ctx, "components", out)
}
