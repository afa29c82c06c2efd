package lab

import (
	"context"
	"fmt"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// driverArgs is the JSON pointer to the driver's arguments in its DaemonSet.
const driverArgs = "/spec/template/spec/containers/0/args"

// AddDriverArgs adds arguments to the driver's, waits until all nodes run it with them, and returns
// how to remove them again.
func (l *Lab) AddDriverArgs(ctx context.Context, args ...string) (remove func(context.Context) error, err error) {
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
	remove = func(ctx context.Context) error { return l.patchDriver(ctx, undo) }
	return remove, l.patchDriver(ctx, add)
}

// patchDriver changes the driver's DaemonSet by a JSON Patch, and waits until all nodes run it.
func (l *Lab) patchDriver(ctx context.Context, operations []string) error {
	patch := "[" + strings.Join(operations, ",") + "]"
	if out, err := l.Cluster.Kubectl(ctx, "-n", "nadra", "patch", "daemonset/nadra-node", "--type=json", "-p", patch); err != nil {
		return fmt.Errorf("changing the driver's arguments: %w\n%s", err, out)
	}
	if out, err := l.Cluster.Kubectl(ctx, "-n", "nadra", "rollout", "status", "daemonset/nadra-node", "--timeout=2m"); err != nil {
		return fmt.Errorf("waiting for the driver: %w\n%s", err, out)
	}
	return nil
}
