//go:build e2e

// Package ipam runs networks with IPAM plugins that keep addresses outside of the node: the
// real whereabouts with its reconciler, under nadra and under Multus, and the CNI project's
// dhcp with its daemon and Debian's dnsmasq. The package has only tests.
//
// Whereabouts is installed by the manifests of its Go module on two nodes with manifests/drop-in.
// Only its reconciler's right to get pods, the image, its pull policy, the CPU limit and the
// schedule are changed. Five times a second a checker reads the interfaces of all running pods and
// the IPPools. The run ends with these lines:
//
//	whereabouts: pods=N duplicates=N leaked=N lost=N
//	nadra:       the burst under nadra: seconds until all pods were Ready, and how long before (-)
//	             or after (+) a pod's start its network-status was stored (least, median, most)
//	multus:      the same burst under Multus
//	dhcp:        the results of the tests with dhcp
//
// A duplicate is an address that two running pods had at the same time, a leaked one an allocation
// that stayed after its pod, and a lost one the address of a running pod that no pool allocates to
// it. One case lets the driver start containers early while the reconciler runs, and fails unless
// the checker finds the duplicate.
//
// BURST_PODS is the number of pods of a burst, 40 by default.
package ipam

import (
	"context"
	"fmt"
	"os"
	"testing"

	"github.com/nadra-dev/nadra/test/cluster"
	"github.com/nadra-dev/nadra/test/lab"
)

// master is the interface of each node that the macvlan networks have as master.
const master = "lan0"

var (
	theLab *lab.Lab
	// interrupted ends when a person stops the run.
	interrupted context.Context
	// whereabouts has the programs and manifests of the IPAM plugin.
	whereabouts cluster.Whereabouts
	// all adds up the results of the whereabouts cases.
	all tally
	// lines are printed last, in the order of their names here.
	lines     = map[string]string{}
	lineOrder = []string{"dhcp", "multus", "nadra"}
)

func TestMain(m *testing.M) {
	lab.Suite{Name: "ipam", Start: start, Install: install, Tests: m.Run, Finally: printLines}.Main()
}

// printLines prints the results.
func printLines() {
	for _, name := range lineOrder {
		if lines[name] != "" {
			fmt.Println(lines[name])
		}
	}
	if all.pods > 0 {
		fmt.Println("whereabouts:", all.totals)
	}
}

func start(ctx context.Context, dir string) (c *cluster.Cluster, err error) {
	interrupted = ctx
	// cluster.Build installs what building images needs.
	if _, err := cluster.Build(ctx, os.Stderr); err != nil {
		return nil, err
	}
	if whereabouts, err = cluster.BuildWhereabouts(ctx, os.Stderr); err != nil {
		return nil, err
	}
	theLab, err = lab.Start(ctx, cluster.Options{
		Dir: dir, Nodes: 2, ImageArchives: []string{whereabouts.Image},
		OnBoot: lab.LinkAtBoot(master),
		// Cases kill the driver; its restart must not be delayed by the kubelet's back-off.
		KubeletConfig: map[string]any{"crashLoopBackOff": map[string]any{"maxContainerRestartPeriod": "1s"}},
	}, os.Stderr)
	if err != nil {
		return nil, err
	}
	return theLab.Cluster, nil
}

// install gives both nodes to nadra and installs whereabouts by its own manifests.
func install(ctx context.Context, _ *cluster.Cluster) error {
	if err := theLab.InstallController(ctx); err != nil {
		return err
	}
	return installWhereabouts(ctx)
}
