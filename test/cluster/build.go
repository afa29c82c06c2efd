package cluster

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// Artifacts has the folders of a cluster's programs and images: one folder of the cache for
// each component.
type Artifacts struct {
	Kubernetes string // etcd, kube-apiserver, …, kubelet: all links to one program
	Kubelet    string // kubelet; the same folder as Kubernetes, unless its version is another
	Kubectl    string // kubectl
	Containerd string // containerd, containerd-shim-runc-v2, ctr
	CRIO       string // crio, crio-images, pinns; empty unless nodes run it
	Runc       string // runc
	CNI        string // CNI plugins
	Tool       string // nadra-cluster
	Images     string // pause.tar and test.tar
}

// PauseImage and TestImage are on every node without being imported. The test
// image is a busybox.
const (
	PauseImage = "localhost/pause:1"
	TestImage  = "localhost/test:1"
)

// programFolders lists the folders that are on the PATH inside a machine.
func (a Artifacts) programFolders() []string {
	return append(a.runtime().folders(), a.Kubernetes, a.Kubelet, a.Kubectl, a.Runc, a.Tool)
}

// folders lists all folders of the cache that the cluster uses.
func (a Artifacts) folders() []string { return append(a.programFolders(), a.CNI, a.Images) }

// imageArchives lists the archives that every node gets.
func (a Artifacts) imageArchives() []string {
	return []string{filepath.Join(a.Images, "pause.tar"), filepath.Join(a.Images, "test.tar")}
}

// Build builds everything that a cluster runs, from Go modules, and keeps it in the cache,
// keyed by its sources. The first call takes minutes and reports its progress on out; a
// call with nothing to do only computes the keys. Concurrent calls, also of several
// processes, wait for each other.
func Build(ctx context.Context, out io.Writer) (Artifacts, error) {
	root, err := sourceRoot()
	if err != nil {
		return Artifacts{}, err
	}
	plan, err := newPlan(ctx, root)
	if err != nil {
		return Artifacts{}, err
	}
	artifacts, complete := plan.artifacts(), plan.complete()
	if complete {
		return artifacts, installPrerequisites(ctx, false, out)
	}
	unlock, err := lockFolder(ctx, plan.folder)
	if err != nil {
		return Artifacts{}, err
	}
	defer unlock()
	if err := installPrerequisites(ctx, true, out); err != nil {
		return Artifacts{}, err
	}
	for _, r := range plan.recipes {
		if err := r.build(ctx, plan.folder, out); err != nil {
			return Artifacts{}, err
		}
	}
	tidy(filepath.Dir(plan.folder), out)
	return artifacts, nil
}

// cacheFolder returns the folder of built components, saved logs and the default run
// folder, which is outside of the source tree.
func cacheFolder() (string, error) {
	if dir := os.Getenv("NADRA_CACHE"); dir != "" {
		return filepath.Abs(dir)
	}
	dir, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("finding a cache folder (set NADRA_CACHE): %w", err)
	}
	return filepath.Join(dir, "nadra"), nil
}

// sourceRoot finds the source tree above the working directory, which is
// inside it for tests as well as for make.
func sourceRoot() (string, error) {
	start, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for dir := start; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "test/cluster/components/kubernetes/go.mod")); err == nil {
			return dir, nil
		}
		if dir == filepath.Dir(dir) {
			return "", fmt.Errorf("%s is not inside the nadra source tree, which the cluster is built from", start)
		}
	}
}
