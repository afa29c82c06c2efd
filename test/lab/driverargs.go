package lab

import (
	"context"
	"fmt"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/nadra-dev/nadra/test/cluster"
)

// driverArgs is the JSON pointer to the driver's arguments in its DaemonSet.
const driverArgs = "/spec/template/spec/containers/0/args"

// AddDriverArgs adds arguments to the driver's, waits until all nodes run it with them, and returns
// how to remove them again.
func AddDriverArgs(ctx context.Context, l *Lab, args ...string) (remove func(context.Context) error, err error) {
	daemonSet, err := l.Kube.AppsV1().DaemonSets("nadra").Get(ctx, "nadra-node", metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	own := len(daemonSet.Spec.Template.Spec.Containers[0].Args)
	var add, undo []string
	for _, arg := range args {
		add = append(add, fmt.Sprintf(`{"op":"add","path":"%s/-","value":%q}`, driverArgs, arg))
		undo = append(undo, fmt.Sprintf(`{"op":"remove","path":"%s/%d"}`, driverArgs, own)) // after the manifest's own
	}
	remove = func(ctx context.Context) error { return patchDriver(ctx, l.Cluster, undo) }
	return remove, patchDriver(ctx, l.Cluster, add)
}

// patchDriver changes the driver's DaemonSet by a JSON Patch, and waits until all nodes run it.
func patchDriver(ctx context.Context, c *cluster.Cluster, operations []string) error {
	patch := "[" + strings.Join(operations, ",") + "]"
	if out, err := c.Kubectl(ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", patch); err != nil {
		return fmt.Errorf("changing the driver's arguments: %w\n%s", err, out)
	}
	if out, err := c.Kubectl(ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=5m"); err != nil {
		return fmt.Errorf("waiting for the driver: %w\n%s", err, out)
	}
	return alone(ctx, c)
}

// alone waits until the drivers that have handed over are gone.
func alone(ctx context.Context, c *cluster.Cluster) error {
	return Eventually(ctx, time.Minute, func(ctx context.Context) error {
		out, err := c.Kubectl(ctx, "-n", "nadra", "get", "pods", "-l", "app.kubernetes.io/name=nadra-node", "-o", "name")
		if pods, nodes := len(strings.Fields(out)), len(c.Nodes())+len(c.Guests()); err == nil && pods > nodes {
			err = fmt.Errorf("%d pods of the driver are on %d nodes", pods, nodes)
		}
		return err
	})
}
