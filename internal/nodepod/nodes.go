package nodepod

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// atOnce is how many nodes are asked at a time.
const atOnce = 10

// Answer is what has come of asking a node.
type Answer[T any] struct {
	Node string
	Said T
	Err  error
}

// Ask asks some nodes at a time until all were asked, whatever one of them says.
// The answers are in the order of the nodes. It also deletes pods that others
// have abandoned.
func Ask[T any](ctx context.Context, r Runner, nodes []string, ask func(node string) (T, error)) []Answer[T] {
	_ = r.Sweep(ctx, Abandoned) // who may not list pods leaves it to others
	out := make([]Answer[T], len(nodes))
	var group errgroup.Group
	group.SetLimit(atOnce)
	for i, node := range nodes {
		group.Go(func() error {
			out[i].Node = node
			out[i].Said, out[i].Err = ask(node)
			return nil
		})
	}
	_ = group.Wait() // errors are in the answers
	return out
}

// LinuxNodes are the names of the nodes that can run nadra-node. One that does
// not say what it is counts.
func LinuxNodes(ctx context.Context, kube kubernetes.Interface) ([]string, error) {
	list, err := kube.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing nodes: %w", err)
	}
	var out []string
	for _, n := range list.Items {
		if IsLinux(n.Status.NodeInfo.OperatingSystem) {
			out = append(out, n.Name)
		}
	}
	return out, nil
}

// IsLinux says so of what a node calls its system; not all say it.
func IsLinux(system string) bool { return system == "" || system == string(corev1.Linux) }
