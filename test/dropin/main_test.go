//go:build e2e

// Package dropin proves that annotated pods run unchanged beside Multus, on a real cluster of two
// nodes: the first has the real Multus as its CNI, the second has nadra's label, and
// manifests/drop-in is installed unmodified. Labels alone decide where the workloads run and who
// serves them. The package has only tests.
//
// For each pod the tests check its network namespace, in which each network must be once, and the
// files of Multus, nadra and the runtime, of which only the owner's may name the pod. The pods of
// both sides are compared by the rules of test/conformance; addresses of host-local are replaced by
// the name of their interface. Each test must leave both nodes unchanged.
package dropin

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// The two nodes, by number.
const (
	multusNode = 1
	nadraNode  = 2
)

// master is the master of macvlan networks, which both nodes have.
const master = "lan0"

var (
	theLab *lab.Lab
	// multusPrograms is the folder of the daemon and the shim.
	multusPrograms string
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "dropin", Start: start, Install: install, Tests: m.Run}.Main()
}

func start(ctx context.Context, dir string) (*cluster.Cluster, error) {
	archives, err := lab.Archives()
	if err != nil {
		return nil, err
	}
	return cluster.Start(ctx, cluster.Options{
		Dir: dir, Nodes: 2, ImageArchives: archives, Out: os.Stderr,
	})
}

// install does what a user of Multus does: it installs all of nadra and labels one node for
// it.
func install(ctx context.Context, c *cluster.Cluster) (err error) {
	if theLab, err = lab.New(c); err != nil {
		return err
	}
	for _, n := range c.Nodes() {
		if err := lab.MakeLink(ctx, n, master); err != nil {
			return err
		}
	}
	if err := theLab.InstallCRD(ctx); err != nil {
		return err
	}
	if multusPrograms, err = cluster.BuildThickMultus(ctx, os.Stderr); err != nil {
		return err
	}
	if err := c.Node(multusNode).Multus().Install(ctx, multusPrograms); err != nil {
		return err
	}
	if err := theLab.Label(ctx, "node/"+c.Node(nadraNode).Name(), api.OwnerNadra); err != nil {
		return err
	}
	if _, err := c.Kubectl(ctx, "apply", "-k", filepath.Join(lab.Root(), "manifests", "drop-in")); err != nil {
		return err
	}
	if err := rolledOut(ctx, "nadra", "daemonset/nadra-node"); err != nil {
		return fmt.Errorf("%w\n%s", err, theLab.DriverLog(ctx))
	}
	return theLab.WaitController(ctx)
}

func rolledOut(ctx context.Context, namespace, what string) error {
	_, err := theLab.Cluster.Kubectl(ctx, "-n", namespace, "rollout", "status", what, "--timeout=120s")
	return err
}

// publishing waits until a node publishes networks, or no longer does.
func publishing(ctx context.Context, node *cluster.Node, want bool) error {
	return lab.Eventually(ctx, time.Minute, func(ctx context.Context) error {
		list, err := theLab.Kube.ResourceV1().ResourceSlices().List(ctx, metav1.ListOptions{
			FieldSelector: "spec.driver=" + lab.DriverName + ",spec.nodeName=" + node.Name(),
		})
		if err != nil {
			return err
		}
		devices := 0
		for _, s := range list.Items {
			devices += len(s.Spec.Devices)
		}
		if (devices > 0) != want {
			return fmt.Errorf("%s publishes %d networks", node.Name(), devices)
		}
		return nil
	})
}
