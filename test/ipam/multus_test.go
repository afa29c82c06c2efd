//go:build e2e

package ipam

import (
	"context"
	"fmt"
	"testing"
	"time"

	api "github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/test/lab"
)

// adoptedPods is the number of pods that change hands.
const adoptedPods = 10

// TestPodsOfMultusAreAdopted gives both nodes to nadra under pods that Multus attached. whereabouts'
// reconciler must leave their addresses alone, and the pods' ends must free them.
func TestPodsOfMultusAreAdopted(t *testing.T) {
	giveToMultus(t, theLab.Cluster.Nodes()...)
	f := setupFor(t, "wa-adopted", api.OwnerMultus, inRange("adopted", "10.163.0.0/24"))
	f.ApplyYAML(lab.Workload("Deployment", "adopted", fmt.Sprintf("replicas: %d", adoptedPods), "adopted", ""))
	f.pods("adopted", adoptedPods, burstLimit)

	giveToNadra(t)
	f.adopted()
	if freed := f.reconcile(); len(freed) > 0 {
		t.Errorf("the reconciler freed addresses of adopted pods: %v", freed)
	}
	f.pods("adopted", adoptedPods, burstLimit)
	f.down("adopted")
}

// adopted waits until nadra has taken all sandboxes from Multus, on all nodes.
func (f *fixture) adopted() {
	f.Helper()
	for _, n := range theLab.Cluster.Nodes() {
		f.Eventually(2*time.Minute, func(ctx context.Context) error {
			left, err := n.Exec(ctx, "sh", "-c", "[ ! -d /var/lib/cni/multus ] || find /var/lib/cni/multus -maxdepth 1 -type f")
			if err == nil && len(left) > 0 {
				err = fmt.Errorf("Multus still has these sandboxes on %s: %s", n.Name(), left)
			}
			return err
		})
	}
}
