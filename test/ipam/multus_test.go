//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"os"
	"testing"
	"time"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// adoptedPods is the number of pods that change hands.
const adoptedPods = 10

// TestPodsOfMultusAreAdopted gives both nodes to nadra under pods that Multus attached. whereabouts'
// reconciler must leave their addresses alone, and the pods' ends must free them.
func TestPodsOfMultusAreAdopted(t *testing.T) {
	programs, err := cluster.BuildThickMultus(interrupted, os.Stderr)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { giveToNadra(t) })
	for _, n := range theLab.Cluster.Nodes() {
		if err := theLab.Label(interrupted, "node/"+n.Name(), ""); err != nil {
			t.Fatal(err)
		}
		if err := n.Multus().Install(interrupted, programs); err != nil {
			t.Fatal(err)
		}
	}
	f := setupFor(t, "wa-adopted", api.OwnerMultus, inRange("adopted", "10.163.0.0/24"))
	f.ApplyYAML(lab.Workload("Deployment", "adopted", fmt.Sprintf("replicas: %d", adoptedPods), "adopted", ""))
	f.pods("adopted", adoptedPods, burstLimit)

	giveToNadra(t)
	for _, n := range theLab.Cluster.Nodes() {
		f.Eventually(time.Minute, func(ctx context.Context) error {
			left, err := n.Exec(ctx, "sh", "-c", "find /var/lib/cni/multus -maxdepth 1 -type f; true")
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("Multus still has these sandboxes on %s: %s", n.Name(), left)
			}
			return err
		})
	}
	if freed := f.reconcile(); len(freed) > 0 {
		t.Errorf("the reconciler freed addresses of adopted pods: %v", freed)
	}
	f.pods("adopted", adoptedPods, burstLimit)
	f.down("adopted")
}
