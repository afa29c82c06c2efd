package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	nadv1 "github.com/k8snetworkplumbingwg/network-attachment-definition-client/pkg/apis/k8s.cni.cncf.io/v1"
	"k8s.io/apimachinery/pkg/util/rand"

	"github.com/nadra-dev/nadra/internal/canary"
	"github.com/nadra-dev/nadra/internal/canaryrun"
	"github.com/nadra-dev/nadra/pkg/api/v1alpha1"
	"github.com/nadra-dev/nadra/pkg/attachment"
)

// canaries returns a function that tests every network that a node offers, by canaries of
// nadra on that node.
func (o *runFlags) canaries() func(ctx context.Context, node string) error {
	return func(ctx context.Context, node string) error {
		config, err := o.cluster.ToRESTConfig()
		if err != nil {
			return fmt.Errorf("finding the cluster: %w", err)
		}
		readiness := doctorOptions{app: o.app}
		cluster, err := readiness.connect()
		if err != nil {
			return err
		}
		nads, offers, err := canaryrun.Networks{Kube: cluster.Kube, NADs: cluster.NADs, Nodes: []string{node}}.Read(ctx)
		if err != nil {
			return err
		}
		driver, image, err := driverImage(ctx, cluster.Kube, o.nodes.image)
		if err != nil {
			return err
		}
		settings := canary.Settings{Run: rand.String(8), Timeout: o.gateTimeout, Image: image, Owner: v1alpha1.OwnerNadra}
		if driver != nil {
			settings.PullSecrets, settings.SecretsNamespace = driver.PullSecrets, driver.Namespace
		}
		plan := canary.NewPlan(canary.Input{
			NADs: offeredOn(node, nads, offers.Networks), Offers: offers.Networks, Pools: offers.Pools, Nodes: []string{node}, PerNode: 1, Settings: settings,
		})
		runner := canaryrun.Runner{Kube: cluster.Kube, Exec: canaryrun.NewExec(config, cluster.Kube), Parallel: 20, Poll: podPoll}
		report, err := runner.Run(ctx, plan)
		if err != nil {
			return err
		}
		return failures(report)
	}
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
