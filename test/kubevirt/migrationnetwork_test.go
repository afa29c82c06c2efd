//go:build e2e

package kubevirt

import (
	"context"
	"fmt"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/lab"
)

// TestMigrationNetwork checks that the pods of virt-handler's DaemonSet have the migration network under the name that
// virt-handler looks for. The node of each pod is decided by the DaemonSet.
func TestMigrationNetwork(t *testing.T) {
	t.Parallel()
	f := setup(t, "vm-migration-network")
	f.Eventually(waitLimit, func(ctx context.Context) error {
		pods, err := f.Kube.CoreV1().Pods("kubevirt").List(ctx, metav1.ListOptions{LabelSelector: "kubevirt.io=virt-handler"})
		if err != nil {
			return err
		}
		if want := len(f.Cluster.Nodes()); len(pods.Items) != want {
			return fmt.Errorf("%d pods of virt-handler exist, want %d", len(pods.Items), want)
		}
		for i := range pods.Items {
			p := &pods.Items[i]
			if !lab.IsReady(p) {
				return fmt.Errorf("pod %s is not ready: %+v", p.Name, p.Status)
			}
			if _, found := f.links(p)["migration0"]; !found {
				return fmt.Errorf("pod %s has no interface migration0", p.Name)
			}
		}
		return nil
	})
}
