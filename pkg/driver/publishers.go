package driver

import (
	"context"
	"math/rand/v2"
	"path/filepath"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/nadra-dev/nadra/internal/metrics"
	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/checkpoint"
	"github.com/nadra-dev/nadra/pkg/driver/internal/hwdevices"
	"github.com/nadra-dev/nadra/pkg/driver/internal/publish"
	"github.com/nadra-dev/nadra/pkg/driver/internal/slicewriter"
	"github.com/nadra-dev/nadra/pkg/inventory"
)

// publishers publish the ResourceSlices of a node.
type publishers struct {
	networks     *publish.Publisher
	nodePods     *publish.NodePods
	otherDrivers *publish.OtherDrivers
	hardware     *hwdevices.Publisher
	poolSources  *hwdevices.PoolSources
	slices       *slicewriter.Tracker
	features     *sliceFeatures
	// nadsRead is true once the NADs were read.
	nadsRead atomic.Bool
}

// newPublishers returns publishers that have not started.
func newPublishers(n *node) (*publishers, error) {
	cfg, clients, h := n.cfg, n.clients, n.cfg.Hardware
	otherDrivers, err := publish.NewOtherDrivers(clients.Kube, cfg.NodeName)
	if err != nil {
		return nil, err
	}
	nodePods, slices := publish.NewNodePods(clients.Kube, cfg.NodeName), slicewriter.NewTracker(cfg.Metrics)
	var object *publish.NodeObject
	if cfg.Profiles {
		object = &publish.NodeObject{Name: cfg.NodeName, Only: cfg.ProfilesOnly, Kube: clients.Kube, Metadata: clients.Metadata}
	}
	networks := publish.New(publish.Options{
		Pool: cfg.NodeName + "/networks", NADs: n.nads.Lister(), Links: n.links.List, Missing: n.operations.Missing,
		BinDirs: cfg.CNIBinDirs, Conf: publish.NewConfDir(cfg.HostRoot, cfg.NADConfDir), Owned: n.owner.owned, OtherPools: otherDrivers.Pools,
		Status: n.operations.Status, Pods: nodePods.Count, Copies: cfg.Copies, Background: n.background,
		HealthChanged: n.report.networkHealth, Refreshed: keepCounters(cfg.Metrics, n.store), Outcome: slices.Outcome(slicewriter.Networks),
		Draw: rand.N[time.Duration], FreeMemory: debug.FreeOSMemory, Node: object,
	})
	poolSources := hwdevices.NewPoolSources(hwdevices.Clients{Kube: clients.Kube, Metadata: clients.Metadata, Dynamic: clients.Dynamic}, cfg.NodeName, h)
	reader := inventory.Reader{Sys: h.SysRoot, Dev: filepath.Join(cfg.HostRoot, "dev"), Kernel: inventory.HostKernel()}
	hardware := hwdevices.New(hwdevices.Options{
		Node: cfg.NodeName, Copies: cfg.Copies, Pools: poolSources.List, Read: reader.Read,
		UsedByPlugins: func(ctx context.Context) (map[string]string, error) {
			return hwdevices.UsedByPlugins(ctx, h.PodResources)
		},
		Owned: n.owner.owned, ProblemChanged: n.report.poolProblem, Outcome: slices.Outcome(slicewriter.Hardware),
	})
	features := &sliceFeatures{
		known: slicewriter.AllFeatures,
		ask: func(ctx context.Context) (slicewriter.Features, error) {
			return slicewriter.AskFeatures(ctx, clients.Kube, cfg.NodeName)
		},
		use: func(features slicewriter.Features) {
			networks.UseFeatures(features)
			hardware.UseFeatures(features)
		},
	}
	return &publishers{
		networks: networks, nodePods: nodePods, otherDrivers: otherDrivers, hardware: hardware, poolSources: poolSources, slices: slices, features: features,
	}, nil
}

// keepCounters returns a function that drops the counters of deleted NADs, unless a pod of
// this node still has the network.
func keepCounters(m *metrics.Node, store *checkpoint.Store) func(*publish.View) {
	return func(networks *publish.View) {
		m.Keep(func(namespace, name string) (cniType string, there bool) {
			ref := attachment.NetworkRef{Namespace: namespace, Name: name}
			if cniType, there = networks.PluginType(ref); !there {
				there = hasRecord(store, ref)
			}
			return cniType, there
		})
	}
}

// hasRecord reports whether there is a record of a network.
func hasRecord(store *checkpoint.Store, ref attachment.NetworkRef) bool {
	for r := range store.Each {
		if r.Attachment.Network == ref && !r.DeviceOnly {
			return true
		}
	}
	return false
}
