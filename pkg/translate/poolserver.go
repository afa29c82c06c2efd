package translate

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/nadra-dev/nadra/pkg/attachment"
	"github.com/nadra-dev/nadra/pkg/pools"
)

// PoolServer says who gives pods the devices of a resource pool.
type PoolServer string

// The servers of a pool.
const (
	// PoolOfNadra is defined by a source that nadra's nodes read, or they publish
	// its devices.
	PoolOfNadra PoolServer = "nadra"
	// PoolOfDriver has devices of another DRA driver, with the attributes for CNI.
	PoolOfDriver PoolServer = "driver"
	// PoolOfPlugin has devices of a device plugin whose configuration nadra does
	// not read.
	PoolOfPlugin PoolServer = "plugin"
	// PoolOfNobody has no devices anywhere, as far as is known.
	PoolOfNobody PoolServer = "nobody"
)

// PoolFacts say who serves a pool. By says more in words: the driver's name, the
// nodes with the device plugin's resource, or why it is nobody's.
type PoolFacts struct {
	Server PoolServer
	By     string
}

// poolFacts returns who serves a pool. A source in the input counts before what
// the options say; without either, nadra does.
func (e *environment) poolFacts(pool string) PoolFacts {
	if e.defined[pool] || e.options.PoolServer == nil {
		return PoolFacts{Server: PoolOfNadra}
	}
	return e.options.PoolServer(pool)
}

// The objects that define pools: the ConfigMaps that nadra-node reads unless it
// is told otherwise, and sriov-network-operator's policies.
const (
	sriovConfig, rdmaConfig = "sriovdp-config", "rdma-devices"
)

// PoolConfigMaps are the names of the ConfigMaps that define pools.
func PoolConfigMaps() []string { return []string{sriovConfig, rdmaConfig} }

// definesPools reports whether an object may define pools.
func definesPools(o object) bool {
	return o.group == "" && o.ref.Kind == "ConfigMap" && slices.Contains(PoolConfigMaps(), o.ref.Name) ||
		o.group == pools.PolicyResource.Group && o.ref.Kind == pools.PolicyKind
}

// learnPools takes note of the pools that an object defines. One that cannot be
// read defines none, and the node's log says why.
func (e *environment) learnPools(o object) {
	if o.ref.Kind == pools.PolicyKind {
		var raw any
		if o.node.Decode(&raw) != nil {
			return
		}
		text, err := json.Marshal(raw)
		if err != nil {
			return
		}
		if p, ok, _ := pools.ParsePolicy(text, e.options.Operators.ResourcePrefix); ok {
			e.defined[p.Pool.ResourceName] = true
		}
		return
	}
	source := pools.Source{Object: o.ref.String()}
	entries(get(o.node, "data"), func(_, value *yaml.Node) {
		found, _ := pools.ParseConfig(source, []byte(str(value)), pools.Options{})
		for _, p := range found {
			e.defined[p.ResourceName] = true
		}
	})
}

// deviceBy says how a network of the pod gets its device.
type deviceBy int

const (
	byNothing    deviceBy = iota // the network needs none
	byPool                       // the claim asks for one of nadra's
	byOtherClaim                 // a claim of the pod for another driver brings it
	byNobody                     // nothing brings it
)

// deviceOf decides how a network gets its device; why says more where that is
// not nadra.
func (p *planner) deviceOf(n network) (by deviceBy, why string) {
	pool := n.resourceName
	if pool == "" {
		return byNothing, ""
	}
	facts := p.env.poolFacts(pool)
	claims := p.foreignClaims()
	switch facts.Server {
	case PoolOfNadra:
		return byPool, ""
	case PoolOfDriver:
		if len(claims) > 0 || p.limits(pool) {
			return byOtherClaim, fmt.Sprintf("driver %s publishes the devices of pool %s, and the pod asks for its own: the claim gets no second one", facts.By, pool)
		}
		return byNobody, fmt.Sprintf("driver %s publishes the devices of pool %s, and the pod has no claim for one: add the claim", facts.By, pool)
	}
	for _, c := range claims {
		if c.mentions(pool) {
			return byOtherClaim, fmt.Sprintf("template %s selects devices of pool %s: the claim gets no second one", c.template, pool)
		}
	}
	return byNobody, facts.unserved(pool)
}

// unserved says why no pod can get a device of a pool by nadra.
func (f PoolFacts) unserved(pool string) string {
	if f.Server == PoolOfPlugin {
		return fmt.Sprintf("only a device plugin that nadra does not replace serves pool %s, on %s: leave the network on Multus' nodes, or have nadra read the pool's definition (nadra-node --pool-config)", pool, f.By)
	}
	looked := f.By
	if looked == "" {
		looked = "no ConfigMap of a device plugin and no SriovNetworkNodePolicy in the input defines it, and --pools does not name it"
	}
	return fmt.Sprintf("nobody serves pool %s: %s", pool, looked)
}

// limits reports whether a container asks for a resource.
func (p *planner) limits(resource string) bool {
	return slices.ContainsFunc(p.containers(), func(c container) bool { return asked(c, resource) > 0 })
}

// foreignClaim is an entry of a pod's spec.resourceClaims that is not for
// networks of nadra's.
type foreignClaim struct {
	template string
	texts    []string // of the selectors of its requests and their classes
}

// foreignClaims returns those of the pod.
func (p *planner) foreignClaims() []foreignClaim {
	hand := p.env.handClaims(p.pod)
	var out []foreignClaim
	for i, item := range items(get(p.pod.template, "spec", "resourceClaims")) {
		name := str(get(item, "resourceClaimTemplateName"))
		path := p.pod.at.Child("spec", "resourceClaims").Index(i).String()
		if ours.MatchString(name) || slices.ContainsFunc(hand, func(c handClaim) bool { return c.path.String() == path }) {
			continue
		}
		out = append(out, foreignClaim{name, p.env.selectorsOf(p.object.ref.Namespace, name)})
	}
	return out
}

// mentions reports whether a selector of the claim names a pool.
func (c foreignClaim) mentions(pool string) bool {
	return slices.ContainsFunc(c.texts, func(text string) bool { return strings.Contains(text, `"`+pool+`"`) })
}

// selectorsOf are the selectors of a template's requests and of their classes.
func (e *environment) selectorsOf(namespace, name string) []string {
	t := e.template(namespace, name)
	if t == nil {
		return nil
	}
	var out []string
	for _, r := range t.Spec.Devices.Requests {
		if r.Exactly == nil {
			continue
		}
		selectors := r.Exactly.Selectors
		if class := e.class(r.Exactly.DeviceClassName); class != nil {
			selectors = slices.Concat(selectors, class.Spec.Selectors)
		}
		for _, s := range selectors {
			if s.CEL != nil {
				out = append(out, s.CEL.Expression)
			}
		}
	}
	return out
}

// deviceless reports for each selection whether its network gets its device by
// another claim of the pod.
func (p *planner) deviceless() []bool {
	out := make([]bool, len(p.selections))
	for i, s := range p.selections {
		if n, found := p.network(s.Network); found {
			by, _ := p.deviceOf(n)
			out[i] = by == byOtherClaim
		}
	}
	return out
}

// checkPool reports how the network of a selection gets its device, where that
// is not by nadra.
func (p *planner) checkPool(i int, n network) {
	path := p.annotationPath(attachment.NetworksAnnotation)
	switch by, why := p.deviceOf(n); by {
	case byNobody:
		p.add(PoolUnserved, path, p.place(i), "%s: %s", p.selections[i].Network, why)
	case byOtherClaim:
		p.add(PoolOfOther, path, p.place(i), "%s: %s", p.selections[i].Network, why)
	}
}

// checkServer reports a pool of a network that nobody serves.
func (n *judged) checkServer(e *environment, pool Path) {
	switch facts := e.poolFacts(n.resourceName); facts.Server {
	case PoolOfNobody, PoolOfPlugin:
		n.add(PoolUnserved, pool, n.place(pool), "%s", facts.unserved(n.resourceName))
	}
}

// AllocatedBy says who serves a pool by what the nodes of a cluster have:
// published are the drivers by the pools of which they publish devices, and
// allocatable the nodes by their resources.
func AllocatedBy(pool, nadra string, published map[string][]string, allocatable map[string][]string) PoolFacts {
	drivers := slices.Sorted(slices.Values(published[pool]))
	switch {
	case slices.Contains(drivers, nadra):
		return PoolFacts{Server: PoolOfNadra}
	case len(drivers) > 0:
		return PoolFacts{Server: PoolOfDriver, By: drivers[0]}
	case len(allocatable[pool]) > 0:
		return PoolFacts{Server: PoolOfPlugin, By: "node " + few(slices.Sorted(slices.Values(allocatable[pool])))}
	}
	return PoolFacts{Server: PoolOfNobody, By: "no node has a device of it"}
}
