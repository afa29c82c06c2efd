//go:build e2e

// Package compose runs networks on interfaces that another DRA driver allocates, in one claim. The other driver is
// test/compose/nic, once as one that leaves its interfaces on the host, and once as one that moves them into pods. The
// package has only tests. Its last line counts the cases, and what any of them has left.
package compose

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// The two drivers, and the interfaces of each.
const (
	leaver, mover       = "leaver.example.com", "mover.example.com"
	leaverNIC, moverNIC = "nic0", "nic1"
)

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// program is test/compose/nic.
	program string
	// cases, passed and left count the cases, and what they have left.
	cases, passed, left atomic.Int32
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "compose", Start: start, Install: install, Tests: m.Run, Finally: func() {
		fmt.Printf("compose: cases=%d passed=%d left=%d\n", cases.Load(), passed.Load(), left.Load())
	}}.Main()
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	interrupted = ctx
	program, err = cluster.Program{
		Suite: "compose", Name: "nic", Package: "./test/compose/nic", Sources: []string{"test/compose/nic/*.go"},
	}.Build(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir: filepath.Join(dir, "cluster"),
		OnBoot: func(ctx context.Context, n *cluster.Node) error {
			return errors.Join(lab.MakeLink(ctx, n, leaverNIC), lab.MakeLink(ctx, n, moverNIC))
		},
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// install starts both drivers, each with a class, and waits until they have published.
func install(ctx context.Context, c *cluster.Cluster) error {
	for driver, args := range map[string][]string{leaver: {leaver, leaverNIC}, mover: {mover, moverNIC}} {
		class := fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s}, spec: {selectors: [{cel: {expression: 'device.driver == "%s"'}}]}}`, driver, driver)
		if _, err := c.KubectlInput(ctx, class, "apply", "-f", "-"); err != nil {
			return err
		}
		args = append([]string{c.Kubeconfig(), c.Node(1).Name()}, args...)
		if driver == mover {
			args = append([]string{"-move"}, args...)
		}
		run(ctx, c.Node(1), args...)
	}
	return lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		for _, driver := range []string{leaver, mover} {
			if out, err := c.Kubectl(ctx, "get", "resourceslices", "--field-selector", "spec.driver="+driver, "-o", "name"); err != nil || out == "" {
				return errors.Join(err, fmt.Errorf("%s has published nothing", driver))
			}
		}
		return nil
	})
}

// run starts the other driver, which the cluster's end ends.
func run(ctx context.Context, n *cluster.Node, args ...string) {
	cmd := n.Command(context.WithoutCancel(ctx), program, args...)
	cmd.Stderr = os.Stderr
	go func() {
		if err := n.Run(cmd); err != nil && !errors.As(err, new(*exec.ExitError)) {
			fmt.Fprintln(os.Stderr, "running the other driver:", err)
		}
	}()
}
