package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nadra-dev/nadra/internal/desk/canary"
	"github.com/nadra-dev/nadra/internal/installation"
	"github.com/nadra-dev/nadra/internal/kube"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// canaries returns a function that tests every network that a node offers, by canaries of
// nadra on that node.
func (o *runFlags) canaries() func(ctx context.Context, node string) error {
	return func(ctx context.Context, node string) error {
		return o.runCanaries(ctx, canary.Networks{Nodes: []string{node}}, "")
	}
}

// namespaceCanaries returns a function that tests the networks of a namespace's pods, by canaries of nadra in that
// namespace on the nodes of these pods. The nodes need no label for it.
func (o *runFlags) namespaceCanaries() func(ctx context.Context, namespace string) error {
	return func(ctx context.Context, namespace string) error {
		cluster, err := o.cluster.connect(giveKubeconfig)
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
}

// runCanaries tests networks on one node. The canaries are in a namespace or, if it is empty, in that of their network.
func (o *runFlags) runCanaries(ctx context.Context, read canary.Networks, namespace string) error {
	config, err := o.cluster.config(giveKubeconfig)
	if err != nil {
		return err
	}
	cluster, err := o.cluster.connect(giveKubeconfig)
	if err != nil {
		return err
	}
	read.Kube, read.NADs = cluster.Kube, cluster.NADs
	nads, offers, err := read.Read(ctx)
	if err != nil {
		return err
	}
	nadra, _, err := installation.Find(ctx, cluster.Kube)
	if err != nil {
		return err
	}
	if nadra.BesideMultus() && !nadra.Pools() { // the webhook leaves their pods to Multus
		nads = slices.DeleteFunc(nads, func(nad *nadv1.NetworkAttachmentDefinition) bool { return attachment.PoolOf(nad.Annotations) != "" })
	}
	driver, image, err := driverImage(ctx, cluster.Kube, o.nodes.image)
	if err != nil {
		return err
	}
	settings := canary.Settings{
		Run: rand.String(8), Namespace: namespace, Timeout: o.gateTimeout, Image: image, Owner: v1alpha1.OwnerNadra, BesideMultus: nadra.BesideMultus(),
	}
	if driver != nil {
		settings.PullSecrets, settings.SecretsNamespace = driver.PullSecrets, driver.Namespace
	}
	plan := canary.NewPlan(canary.Input{
		NADs: offeredOn(read.Nodes[0], nads, offers.Networks), Offers: offers.Networks, Pools: offers.Pools, Nodes: read.Nodes, PerNode: 1, Settings: settings,
	})
	runner := canary.Runner{Kube: cluster.Kube, Exec: canary.NewExec(config, cluster.Kube), Parallel: 20, Poll: podPoll}
	report, err := runner.Run(ctx, plan)
	if err != nil {
		return err
	}
	return failures(report)
}

// offeredOn returns the networks that a node offers. Others cannot be tested on it.
func offeredOn(node string, nads []*nadv1.NetworkAttachmentDefinition, offers map[attachment.NetworkRef][]string) []*nadv1.NetworkAttachmentDefinition {
	return slices.DeleteFunc(nads, func(nad *nadv1.NetworkAttachmentDefinition) bool {
		return !slices.Contains(offers[attachment.NetworkRef{Namespace: nad.Namespace, Name: nad.Name}], node)
	})
}

// failures returns an error with the canaries that failed, or nil.
func failures(r *canary.Report) error {
	var bad []string
	for _, n := range r.Networks {
		for _, p := range n.Pods {
			if p.Status == canary.Failed {
				bad = append(bad, n.Network+": "+strings.Join(p.Problems, "; "))
			}
		}
	}
	if len(bad) == 0 {
		return nil
	}
	return errors.New("canaries lack their networks: " + strings.Join(bad, ", "))
}
