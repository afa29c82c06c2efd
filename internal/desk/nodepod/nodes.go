package nodepod

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/nadra-dev/nadra/internal/kube"
)

// atOnce limits the number of nodes on which pods run at a time.
const atOnce = 10

// Result is the report of a node, or the error for a node without one.
type Result[T any] struct {
	Node   string
	Report T
	Err    error
}

// OnEach calls run for each node, for several at a time, and returns the results in the order
// of the nodes. It first deletes pods that other processes abandoned.
func OnEach[T any](ctx context.Context, r Runner, nodes []string, run func(node string) (T, error)) []Result[T] {
	_ = r.Sweep(ctx, Abandoned) // a user without the right to list pods leaves them
	out := make([]Result[T], len(nodes))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, node := range nodes {
		group.Go(func() error {
			out[i].Node = node
			out[i].Report, out[i].Err = run(node)
			return nil
		})
	}
	_ = group.Wait() // the results have the errors
	return out
}

// LinuxNodes returns the names of the nodes that can run nadra-node.
func LinuxNodes(ctx context.Context, client kubernetes.Interface) ([]string, error) {
	var out []string
	err := kube.EachItem(ctx, kube.All, client.CoreV1().Nodes().List, func(n *corev1.Node) {
		if IsLinux(n.Status.NodeInfo.OperatingSystem) {
			out = append(out, n.Name)
		}
	})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	return out, nil
}

// IsLinux reports whether a node runs Linux, by the operating system in its status. A
// node without one counts as Linux.
func IsLinux(system string) bool { return system == "" || system == string(corev1.Linux) }
