//go:build e2e

package skew

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// version is a version of nadra: its sources, its programs and the tag of its images.
type version struct{ tree, bin, tag string }

// images are the images of nadra with the programs in each.
var images = map[string][]string{"nadra-node": {"nadra-node", "nadra-gate"}, "nadra-controller": {"nadra-controller"}}

// archives returns the archives of the version's images.
func (v version) archives() (out []string) {
	for image := range images {
		out = append(out, filepath.Join(v.bin, image+".tar"))
	}
	return out
}

// buildPrevious builds the version of the commit in the file previous, once.
func buildPrevious(ctx context.Context) (version, error) {
	content, err := os.ReadFile(filepath.Join(lab.Root(), "test", "skew", "previous"))
	if err != nil {
		return version{}, err
	}
	commit := strings.TrimSpace(string(content))
	dir := filepath.Join(lab.Root(), "bin", "skew", commit)
	v := version{tree: filepath.Join(dir, "tree"), bin: filepath.Join(dir, "bin"), tag: "previous"}
	done := filepath.Join(dir, "done")
	if _, err := os.Stat(done); err == nil {
		return v, nil
	}
	if err := run(ctx, lab.Root(), "git", "cat-file", "-e", commit+"^{commit}"); err != nil {
		return v, fmt.Errorf("this clone has no commit %s, which test/skew/previous names: fetch the whole history (git fetch --unshallow): %w", commit, err)
	}
	if err := os.MkdirAll(v.tree, 0o755); err != nil {
		return v, err
	}
	if err := run(ctx, lab.Root(), "sh", "-ec", `git archive --format=tar "$1" | tar -x -C "$2"`, "-", commit, v.tree); err != nil {
		return v, err
	}
	if err := run(ctx, v.tree, "go", "build", "-ldflags=-s -w", "-o", v.bin+"/", "./cmd/..."); err != nil {
		return v, err
	}
	for image, programs := range images {
		args := []string{"-o", filepath.Join(v.bin, image+".tar"), "-t", "localhost/" + image + ":" + v.tag, "-entrypoint", "/" + image}
		for _, program := range programs {
			args = append(args, "/"+program+"="+filepath.Join(v.bin, program))
		}
		if err := run(ctx, v.tree, filepath.Join(lab.Root(), "bin", "mkimage"), args...); err != nil {
			return v, err
		}
	}
	return v, os.WriteFile(done, nil, 0o644)
}

// run runs a program in a folder. Its error has what the program printed.
func run(ctx context.Context, dir, program string, args ...string) error {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir = dir
	if out, err := command.CombinedOutput(); err != nil {
		return fmt.Errorf("running %s %s: %w\n%s", program, strings.Join(args, " "), err, out)
	}
	return nil
}

// apply applies the version's own manifests/drop-in with its images, as a user would.
func (v version) apply(ctx context.Context, c *cluster.Cluster) error {
	dir := filepath.Join(c.Dir(), "skew-"+v.tag)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	manifests, err := filepath.Rel(dir, filepath.Join(v.tree, "manifests", "drop-in"))
	if err != nil {
		return err
	}
	text := "resources: [" + manifests + "]\nimages:\n"
	for image := range images {
		text += fmt.Sprintf("  - {name: localhost/%s, newTag: %s}\n", image, v.tag)
	}
	if err := os.WriteFile(filepath.Join(dir, "kustomization.yaml"), []byte(text), 0o644); err != nil {
		return err
	}
	_, err = c.Kubectl(ctx, "apply", "-k", dir)
	return err
}

// install applies the version and waits until its programs serve.
func (v version) install(ctx context.Context, c *cluster.Cluster) error {
	if err := v.apply(ctx, c); err != nil {
		return err
	}
	return rolledOut(ctx, c)
}

// rolledOut waits until the programs that were applied last serve.
func rolledOut(ctx context.Context, c *cluster.Cluster) error {
	for _, workload := range [][]string{{"nadra", "daemonset/nadra-node"}, {lab.ControllerNamespace, "deployment/nadra-controller"}} {
		if out, err := c.Kubectl(ctx, "-n", workload[0], "rollout", "status", workload[1], "--timeout=120s"); err != nil {
			return fmt.Errorf("waiting for %s: %w\n%s", workload[1], err, out)
		}
	}
	return nil
}
