//go:build e2e

// Package compose runs networks on interfaces that another DRA driver allocates, in one claim. The other driver is
// test/otherdriver, in three manners: it leaves its interfaces on the host, or moves them into pods. Both drivers die
// at each of their steps: nadra's has fail points, as in the fault suite. The package has only tests. Its last line
// counts the cases, and what any of them has left.
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

// The drivers, and the interface of each: one leaves it on the host, one moves it into the pod after nadra's hook, and
// one before.
const (
	leaver, mover, early          = "leaver.example.com", "mover.example.com", "early.example.com"
	leaverNIC, moverNIC, earlyNIC = "nic0", "nic1", "nic2"
)

// arguments has what each driver is started with. Besides its interface it publishes a device without attributes.
var arguments = map[string]struct {
	flags []string
	nic   string
}{
	leaver: {nil, leaverNIC},
	mover:  {[]string{"-move", "late"}, moverNIC},
	early:  {[]string{"-move", "early"}, earlyNIC},
}

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// program is test/otherdriver.
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
		Suite: "compose", Name: "otherdriver", Package: "./test/otherdriver", Sources: []string{"test/otherdriver/*.go"},
	}.Build(ctx, os.Stderr)
	if err != nil {
		return nil, err
	}
	theLab, err = lab.StartImage(ctx, filepath.Join(lab.Root(), "bin", "faults", "nadra-node.tar"), cluster.Options{
		Dir:           filepath.Join(dir, "cluster"),
		KubeletConfig: map[string]any{"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"}},
		OnBoot: func(ctx context.Context, n *cluster.Node) error {
			return errors.Join(lab.MakeLink(ctx, n, leaverNIC), lab.MakeLink(ctx, n, moverNIC), lab.MakeLink(ctx, n, earlyNIC))
		},
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// install starts the drivers, each with a class, and waits until they have published.
func install(ctx context.Context, c *cluster.Cluster) error {
	for driver, args := range arguments {
		class := fmt.Sprintf(`{apiVersion: resource.k8s.io/v1, kind: DeviceClass, metadata: {name: %s}, spec: {selectors: [{cel: {expression: 'device.driver == "%s"'}}]}}`, driver, driver)
		if _, err := c.KubectlInput(ctx, class, "apply", "-f", "-"); err != nil {
			return err
		}
		run(ctx, c.Node(1), append(args.flags, c.Kubeconfig(), c.Node(1).Name(), driver, "nameless", args.nic+",ifName="+args.nic)...)
	}
	return lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		for driver := range arguments {
			if out, err := c.Kubectl(ctx, "get", "resourceslices", "--field-selector", "spec.driver="+driver, "-o", "name"); err != nil || out == "" {
				return errors.Join(err, fmt.Errorf("%s has published nothing", driver))
			}
		}
		return nil
	})
}

// run starts the other driver, and again when it was killed. The cluster's end ends it.
func run(ctx context.Context, n *cluster.Node, args ...string) {
	go func() {
		for killed := true; killed; {
			cmd := n.Command(context.WithoutCancel(ctx), program, args...)
			cmd.Stderr = os.Stderr
			err := n.Run(cmd)
			if err != nil && !errors.As(err, new(*exec.ExitError)) {
				fmt.Fprintln(os.Stderr, "running the other driver:", err)
			}
			killed = cmd.ProcessState != nil && !cmd.ProcessState.Exited()
		}
	}()
}
