package publish

import (
	"context"
	"fmt"
	"sync/atomic"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/klog/v2"

	"github.com/nadra-dev/nadra/pkg/driver/internal/background"
)

const (
	// usualPods is the kubelet's default limit of pods, which counts until the Node is read.
	usualPods = 110
	// nodePodsWait limits how long the start waits for the Node.
	nodePodsWait = 2 * time.Second
	// nodePodsEvery is the pause between two reads of the Node: the limit changes when an administrator
	// changes the kubelet's configuration.
	nodePodsEvery = time.Hour
)

// NodePods has the number of pods that this node takes.
type NodePods struct {
	kube  kubernetes.Interface
	node  string
	count atomic.Int64
}

// NewNodePods returns the number for a Node that is not read yet.
func NewNodePods(kube kubernetes.Interface, node string) *NodePods {
	p := &NodePods{kube: kube, node: node}
	p.count.Store(usualPods)
	return p
}

// Count returns the number of pods, as far as it is known.
func (p *NodePods) Count() int64 { return p.count.Load() }

// Start reads the Node, and again every hour until ctx ends. It calls changed when the number changes.
func (p *NodePods) Start(ctx context.Context, run func(func() error), changed func()) {
	limited, cancel := context.WithTimeout(ctx, nodePodsWait)
	defer cancel()
	p.read(limited)
	run(func() error {
		for background.Sleep(ctx, nodePodsEvery) {
			if p.read(ctx) {
				changed()
			}
		}
		return nil
	})
}

// read reads the Node. It returns true if the number has changed.
func (p *NodePods) read(ctx context.Context) bool {
	count, err := p.allocatable(ctx)
	if err != nil {
		klog.FromContext(ctx).Error(err, "The number of pods that the node takes is not known; using the latest", "node", p.node, "retryAfter", nodePodsEvery)
		return false
	}
	return p.count.Swap(count) != count
}

func (p *NodePods) allocatable(ctx context.Context) (int64, error) {
	node, err := p.kube.CoreV1().Nodes().Get(ctx, p.node, metav1.GetOptions{})
	if err != nil {
		return 0, fmt.Errorf("reading Node %s: %w", p.node, err)
	}
	count, ok := node.Status.Allocatable.Pods().AsInt64()
	if !ok || count <= 0 {
		return 0, fmt.Errorf("reading Node %s: status.allocatable.pods is %s", p.node, node.Status.Allocatable.Pods())
	}
	return count, nil
}
