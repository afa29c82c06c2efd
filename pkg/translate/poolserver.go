package translate

import (
	"encoding/json"
	"fmt"
	"slices"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/internal/yamledit"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// PoolServer is what gives pods the devices of a resource pool.
type PoolServer string

// The servers of a pool.
const (
	// PoolOfNadra is a pool that a source of nadra's nodes defines, or whose devices they
	// publish.
	PoolOfNadra PoolServer = "nadra"
	// PoolOfDriver is a pool of another DRA driver, whose devices have the attributes for CNI.
	PoolOfDriver PoolServer = "driver"
	// PoolOfPlugin is a pool of a device plugin whose configuration nadra does not read.
	PoolOfPlugin PoolServer = "plugin"
	// PoolOfNobody is a pool without any known device.
	PoolOfNobody PoolServer = "nobody"
)

// PoolFacts describes what serves a pool.
type PoolFacts struct {
	Server PoolServer
	// By is the driver's name, the nodes with the device plugin's resource, or why nothing
	// serves the pool.
	By string
}

// poolFacts returns what serves a pool. A source in the input takes precedence over the
// options, and a class that the options name over both. Without any, nadra serves the pool.
func (e *environment) poolFacts(pool string) PoolFacts {
	if class := e.otherClass(pool); class != "" {
		return PoolFacts{Server: PoolOfDriver, By: "of DeviceClass " + class}
	}
	if e.defined[pool] || e.options.PoolServer == nil {
		return PoolFacts{Server: PoolOfNadra}
	}
	return e.options.PoolServer(pool)
}

// TakenAlone reports whether a pod without a claim gets a device of a pool: it requests the resource, and no DRA driver
// serves the pool, so that a device plugin may. The kubelet then gives the pod its devices without the scheduler, and
// the node attaches them.
func (o Options) TakenAlone(pool string, requested bool) bool {
	if !requested || !o.Pools {
		return requested
	}
	if o.PoolServer == nil {
		return false
	}
	server := o.PoolServer(pool).Server
	return server == PoolOfPlugin || server == PoolOfNobody
}

// The ConfigMaps that define pools: those that nadra-node reads by default.
const (
	sriovConfig, rdmaConfig = "sriovdp-config", "rdma-devices"
)

// PoolConfigMaps returns the names of the ConfigMaps that define pools.
func PoolConfigMaps() []string { return []string{sriovConfig, rdmaConfig} }

// definesPools reports whether an object may define pools.
func definesPools(o object) bool {
	return o.group == "" && o.ref.Kind == "ConfigMap" && slices.Contains(PoolConfigMaps(), o.ref.Name) ||
		o.group == pools.PolicyResource.Group && o.ref.Kind == pools.PolicyKind
}

// indexPools records the pools that an object defines. An invalid object defines none; the
// log of the node has the reason.
func (e *environment) indexPools(o object) {
	if o.ref.Kind == pools.PolicyKind {
		var text json.RawMessage
		if !decodeNode(o.node, &text) {
			return
		}
		if p, ok, _ := pools.ParsePolicy(text, e.options.ResourcePrefix); ok {
			e.defined[p.Pool.ResourceName] = true
		}
		return
	}
	source := pools.Source{Object: o.ref.String()}
	yamledit.Entries(get(o.node, "data"), func(_, value *yaml.Node) {
		found, _ := pools.ParseConfig(source, []byte(str(value)), pools.Options{})
		for _, p := range found {
			e.defined[p.ResourceName] = true
		}
	})
}

// unserved explains why nadra cannot give a pod a device of a pool.
func (f PoolFacts) unserved(pool string) string {
	if f.Server == PoolOfPlugin {
		return fmt.Sprintf("pool %s has only devices of a device plugin that nadra does not replace, on %s: leave the network to Multus, or let nadra read the pool's definition (nadra-node --pool-config)", pool, f.By)
	}
	why := f.By
	if why == "" {
		why = "no ConfigMap of a device plugin and no SriovNetworkNodePolicy in the input defines it, and --pools does not name it"
	}
	return fmt.Sprintf("nothing serves pool %s: %s", pool, why)
}

// checkServer reports a network whose pool nadra cannot serve.
func (n *inputNetwork) checkServer(e *environment, pool Path) {
	switch facts := e.poolFacts(n.resourceName); facts.Server {
	case PoolOfNobody, PoolOfPlugin:
		n.add(PoolUnserved, pool, n.place(pool), "%s", facts.unserved(n.resourceName))
	}
}

// AllocatedBy returns what serves a pool, by what the nodes of a cluster have. published has the
// drivers that publish devices, by pool; allocatable has the nodes, by resource.
func AllocatedBy(pool, nadra string, published map[string][]string, allocatable map[string][]string) PoolFacts {
	drivers := slices.Sorted(slices.Values(published[pool]))
	switch {
	case slices.Contains(drivers, nadra):
		return PoolFacts{Server: PoolOfNadra}
	case len(drivers) > 0:
		return PoolFacts{Server: PoolOfDriver, By: drivers[0]}
	case len(allocatable[pool]) > 0:
		return PoolFacts{Server: PoolOfPlugin, By: "node " + firstNames(slices.Sorted(slices.Values(allocatable[pool])))}
	}
	return PoolFacts{Server: PoolOfNobody, By: "no node has such a device"}
}
