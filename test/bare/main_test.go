//go:build e2e

// Package bare runs nadra on a node with a read-only root and no CNI plugins where nadra looks for them: they are in
// images that the driver's pod mounts. The package has only tests. Its last line counts the cases, and what any of them
// has left.
package bare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// Images of plugins: the released one, one with another build of it, and one of somebody else, which has an IPAM plugin.
const (
	released = "localhost/nadra-cni-plugins:dev"

	next = "localhost/nadra-cni-plugins:next"
	more = "localhost/more-plugins:dev"
)

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// nextPrograms is the directory of next's plugins.
	nextPrograms string
	// whereabouts has an IPAM plugin that asks the API server.
	whereabouts cluster.Whereabouts
	// cases, passed and left count the cases, and what they have left.
	cases, passed, left int
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "bare", Start: start, Install: install, Tests: m.Run, Finally: func() {
		fmt.Printf("bare: cases=%d passed=%d left=%d\n", cases, passed, left)
	}}.Main()
}

func start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	interrupted = ctx
	archives, err := images(ctx, dir)
	if err != nil {
		return nil, err
	}
	if whereabouts, err = cluster.BuildWhereabouts(ctx, os.Stderr); err != nil {
		return nil, err
	}
	archives = append(archives, whereabouts.Image)
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"), Layout: cluster.Elsewhere, ImageArchives: archives,
		OnBoot: lab.LinkAtBoot("lan0"),
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// images makes the images of plugins besides the released one, and returns the archives of all.
func images(ctx context.Context, dir string) ([]string, error) {
	nextPrograms = filepath.Join(dir, "next")
	programs := lab.Built("cni-plugins")
	if err := os.CopyFS(nextPrograms, os.DirFS(programs)); err != nil {
		return nil, fmt.Errorf("copying the plugins (run `make cni-plugins`): %w", err)
	}
	macvlan, err := os.OpenFile(filepath.Join(nextPrograms, "macvlan"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return nil, err
	}
	_, err = macvlan.WriteString("another build\n")
	if err = errors.Join(err, macvlan.Close()); err != nil {
		return nil, err
	}
	var archives []string
	for name, files := range map[string][]string{
		next: {"/macvlan=" + nextPrograms + "/macvlan", "/host-local=" + nextPrograms + "/host-local"},
		more: {"/opt/plugins/fixed=" + programs + "/static", "/opt/README=" + filepath.Join(lab.Root(), "README.md")},
	} {
		archive := filepath.Join(dir, fmt.Sprintf("image-%d.tar", len(archives)))
		command := exec.CommandContext(ctx, lab.Built("mkimage"), append([]string{"-o", archive, "-t", name}, files...)...)
		if out, err := command.CombinedOutput(); err != nil {
			return nil, fmt.Errorf("making image %s: %w\n%s", name, err, out)
		}
		archives = append(archives, archive)
	}
	return archives, nil
}

// install gives the driver, which has the component cni-plugins, the image of whereabouts, and one of somebody else whose
// plugins are in a directory, and takes the runtime's plugins away.
func install(ctx context.Context, c *cluster.Cluster) error {
	return patch(ctx, c, `
- {op: add, path: /spec/template/spec/containers/0/args/-, value: "--cni-bin-dirs=/opt/cni/bin,image:reference,image:more,image:whereabouts"}
- {op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: cni-image-more, mountPath: /cni-images/more, readOnly: true, subPath: opt/plugins}}
- {op: add, path: /spec/template/spec/volumes/-, value: {name: cni-image-more, image: {reference: `+more+`}}}
- {op: add, path: /spec/template/spec/containers/0/volumeMounts/-, value: {name: cni-image-whereabouts, mountPath: /cni-images/whereabouts, readOnly: true}}
- {op: add, path: /spec/template/spec/volumes/-, value: {name: cni-image-whereabouts, image: {reference: `+cluster.WhereaboutsImage+`}}}
`)
}

// patch changes the driver's DaemonSet by a JSON Patch, and waits until all nodes run it.
func patch(ctx context.Context, c *cluster.Cluster, operations string) error {
	if _, err := c.Kubectl(ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", operations); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=2m"); err != nil {
		return fmt.Errorf("waiting for the driver: %w\n%s", err, theLab.DriverLog(ctx))
	}
	return nil
}
