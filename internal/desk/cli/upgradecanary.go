package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/translate"
)

// nodeCanaries tests every network that a node offers, by canaries of nadra on that node.
func (o *runFlags) nodeCanaries(ctx context.Context, node string) error {
	return o.runCanaries(ctx, canary.Networks{Nodes: []string{node}}, "")
}

// namespaceCanaries tests the networks of a namespace's pods, by canaries of nadra in that namespace on the nodes of
// these pods. The nodes need no label for it.
func (o *runFlags) namespaceCanaries(ctx context.Context, namespace string) error {
	cluster, err := o.connect()
	if err != nil {
		return err
	}
	used := map[string][]string{} // by node
	err = kube.EachItem(ctx, kube.All, cluster.Kube.CoreV1().Pods(namespace).List, func(p *corev1.Pod) {
		selections, err := attachment.ParseSelections(attachment.NetworksText(p.Annotations), namespace)
		for _, s := range selections {
			if name := s.Network.String(); err == nil && p.Spec.NodeName != "" && !slices.Contains(used[p.Spec.NodeName], name) {
				used[p.Spec.NodeName] = append(used[p.Spec.NodeName], name)
			}
		}
	})
	if err != nil {
		return fmt.Errorf("listing the pods of namespace %s: %w", namespace, err)
	}
	for _, node := range slices.Sorted(maps.Keys(used)) {
		if err := o.runCanaries(ctx, canary.Networks{Own: namespace, Names: used[node], Nodes: []string{node}}, namespace); err != nil {
			return fmt.Errorf("on node %s: %w", node, err)
		}
	}
	return nil
}

// runCanaries tests networks on one node. The canaries are in a namespace or, if it is empty, in that of their network.
func (o *runFlags) runCanaries(ctx context.Context, read canary.Networks, namespace string) error {
	plan, runner, err := o.planCanaries(ctx, read, canary.Input{
		PerNode: 1, Settings: canary.Settings{Namespace: namespace, Timeout: o.gateTimeout, Image: o.nodes.image, Owner: v1alpha1.OwnerNadra},
	}, false)
	if err != nil {
		return err
	}
	report, err := runner.Run(ctx, plan)
	if err != nil {
		return err
	}
	return failures(report)
}

// failures returns an error with the blockers, or nil.
func failures(r *canary.Report) error {
	var bad []string
	for _, f := range r.Findings {
		if f.Severity == translate.Blocker {
			bad = append(bad, f.String())
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return errors.New("canaries lack their networks: " + strings.Join(bad, ", "))
}
