package doctor

import (
	"context"
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/kube"
)

// parallel limits the kubelets that are asked at a time.
const parallel = 10

// readNodes reads the nodes and their kubelets' configuration.
func (r *reader) readNodes(ctx context.Context) {
	if !each(ctx, r, PartNodes, "nodes", kube.All, r.Kube.CoreV1().Nodes().List, func(n *corev1.Node) {
		if len(r.Nodes) == 0 || slices.Contains(r.Nodes, n.Name) {
			r.caps.Nodes = append(r.caps.Nodes, nodeOf(n))
		}
	}) {
		return
	}
	slices.SortFunc(r.caps.Nodes, func(a, b Node) int { return strings.Compare(a.Name, b.Name) })
	r.readConfigs(ctx)
}

// nodeOf returns what checks need about a node.
func nodeOf(n *corev1.Node) Node {
	info := n.Status.NodeInfo
	out := Node{
		Name: n.Name, Kubelet: info.KubeletVersion, Runtime: info.ContainerRuntimeVersion,
		OS: info.OperatingSystem, Image: info.OSImage, Kernel: info.KernelVersion, Arch: info.Architecture,
	}
	for key, value := range n.Labels {
		if !isAboutPurpose(key) {
			continue
		}
		if out.Labels == nil {
			out.Labels = map[string]string{}
		}
		out.Labels[key] = value
	}
	return out
}

// isAboutPurpose reports whether a label describes the node's purpose.
func isAboutPurpose(label string) bool {
	return strings.HasPrefix(label, "nadra.dev/") || strings.HasPrefix(label, "node-role.kubernetes.io/") ||
		slices.Contains([]string{corev1.LabelTopologyZone, corev1.LabelInstanceTypeStable}, label)
}

// readConfigs reads the configuration of the nodes' kubelets.
func (r *reader) readConfigs(ctx context.Context) {
	errs := make([]error, len(r.caps.Nodes))
	var group errgroup.Group
	group.SetLimit(parallel)
	for i := range r.caps.Nodes {
		group.Go(func() error {
			r.caps.Nodes[i].Config, errs[i] = r.readConfig(ctx, r.caps.Nodes[i].Name)
			return nil
		})
	}
	_ = group.Wait() // the errors are in errs, one for each node
	for i, err := range errs {
		r.failed(PartConfig, r.caps.Nodes[i].Name, err, "the right to get nodes/proxy, and a kubelet that answers")
	}
}

// readConfig reads the configuration of a node's kubelet.
func (r *reader) readConfig(ctx context.Context, node string) (*KubeletConfig, error) {
	text, err := r.Raw(ctx, "/api/v1/nodes/"+url.PathEscape(node)+"/proxy/configz")
	if err != nil {
		return nil, err
	}
	var out struct {
		Config *KubeletConfig `json:"kubeletconfig"`
	}
	if err := json.Unmarshal(text, &out); err != nil {
		return nil, fmt.Errorf("reading the kubelet's configuration: %w", err)
	}
	return out.Config, nil
}
