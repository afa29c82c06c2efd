//go:build e2e

package conformance

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// The test runs itself again inside of a node. These variables tell the inner run where the
// programs are.
const (
	insideEnv = "NADRA_CONFORMANCE_INSIDE"
	multusEnv = "NADRA_CONFORMANCE_MULTUS"
	pluginEnv = "NADRA_CONFORMANCE_PLUGIN"
)

func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(insideEnv) != "" {
		code := m.Run()
		if verdicts.Cases > 0 {
			fmt.Println(verdicts.Summary())
		}
		os.Exit(code)
	}
	lab.Main("conformance", func(ctx context.Context, dir string) int {
		if err := outside(ctx, dir); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
		return 0
	})
}

// outside starts a cluster, runs the tests in its node, and ends it.
func outside(ctx context.Context, dir string) (err error) {
	multus, plugin, err := programs(ctx, dir)
	if err != nil {
		return err
	}
	c, err := cluster.Start(ctx, cluster.Options{Dir: filepath.Join(dir, "cluster"), Out: os.Stderr})
	if err != nil {
		return fmt.Errorf("starting the cluster: %w", err)
	}
	defer func() { err = errors.Join(err, c.Stop(context.WithoutCancel(ctx))) }()
	if err := installCRD(ctx, c); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	cmd := c.Node(1).Command(ctx, self, os.Args[1:]...)
	cmd.Stdout, cmd.Stderr = os.Stdout, os.Stderr
	cmd.Env = append(cmd.Env, insideEnv+"=1", multusEnv+"="+multus, pluginEnv+"="+plugin, corpusEnv+"="+os.Getenv(corpusEnv))
	return c.Node(1).Run(cmd)
}

// programs builds the programs of the two sides, except for nadra-node, which `make build`
// makes.
func programs(ctx context.Context, dir string) (multus, plugin string, err error) {
	if multus, err = cluster.BuildMultus(ctx, os.Stderr); err != nil {
		return "", "", err
	}
	plugin = filepath.Join(dir, "plugin")
	cmd := exec.CommandContext(ctx, "go", "build", "-o", plugin, "./test/conformance/plugin")
	cmd.Dir, cmd.Env = lab.Root(), append(os.Environ(), "CGO_ENABLED=0")
	if output, err := cmd.CombinedOutput(); err != nil {
		return "", "", fmt.Errorf("building the suite's plugin: %w\n%s", err, output)
	}
	return multus, plugin, nil
}

func installCRD(ctx context.Context, c *cluster.Cluster) error {
	if _, err := c.Kubectl(ctx, "apply", "-k", filepath.Join(lab.Root(), "manifests/nad-crd")); err != nil {
		return err
	}
	return lab.WaitEstablished(ctx, c, "network-attachment-definitions.k8s.cni.cncf.io")
}
