package pools

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/nadra-dev/nadra/pkg/inventory"
)

// PolicyKind is the kind of sriov-network-operator's policies.
const PolicyKind = "SriovNetworkNodePolicy"

// PolicyResource is the policies' resource in the API.
var PolicyResource = schema.GroupVersionResource{Group: "sriovnetwork.openshift.io", Version: "v1", Resource: "sriovnetworknodepolicies"}

// Policy is the part of a SriovNetworkNodePolicy that defines a pool. The operator follows
// the rest, which configures cards.
type Policy struct {
	Name string
	// Priority orders policies: the one with the highest has precedence.
	Priority int
	// NodeSelector has the labels that a node must have.
	NodeSelector map[string]string
	Pool         Pool
}

// defaultPolicy is the name of an object that the operator creates and that selects nothing.
const defaultPolicy = "default"

// ParsePolicy parses a SriovNetworkNodePolicy of sriovnetwork.openshift.io/v1 in JSON. prefix
// is the domain of its resources, or empty for DefaultOperatorPrefix. ok is false if the
// policy defines no pool.
func ParsePolicy(raw []byte, prefix string) (_ Policy, ok bool, _ error) {
	var meta struct{ Name, Namespace string }
	o, err := newObject(Source{Object: "SriovNetworkNodePolicy"}, raw)
	if err != nil {
		return Policy{}, false, err
	}
	o.get("metadata", &meta)
	source := Source{Object: fmt.Sprintf("SriovNetworkNodePolicy %s/%s", meta.Namespace, meta.Name)}
	if meta.Name == defaultPolicy {
		return Policy{}, false, nil
	}
	spec, err := newObject(source.at("spec"), o.take("spec"))
	if err != nil {
		return Policy{}, false, err
	}
	if prefix == "" {
		prefix = DefaultOperatorPrefix
	}
	p, err := parseSpec(spec, prefix)
	p.Name = meta.Name
	return p, err == nil, err
}

// parseSpec parses a policy's spec.
func parseSpec(o *object, prefix string) (Policy, error) {
	p := Policy{Pool: Pool{Source: Source{Object: o.source.Object}, DeviceType: NetDevice}}
	var s Selector
	var name, deviceType, linkType string
	var vfs int
	o.get("resourceName", &name)
	o.get("nodeSelector", &p.NodeSelector)
	o.get("priority", &p.Priority)
	o.get("deviceType", &deviceType)
	o.get("linkType", &linkType)
	o.get("numVfs", &vfs)
	o.get("isRdma", &s.IsRDMA)
	o.get("needVhostNet", &s.NeedVhostNet)
	o.get("vdpaType", &s.VDPAType)
	o.get("excludeTopology", &p.Pool.ExcludeTopology)
	for _, field := range []string{"mtu", "eSwitchMode", "externallyManaged", "bridge"} {
		o.take(field) // for the operator, which configures cards
	}
	o.checkVDPA(s)
	if err := checkResourceName(prefix, name); err != nil {
		o.fail("resourceName", "%w", err)
	}
	o.kind(&s, deviceType, linkType)
	if nic := o.take("nicSelector"); nic == nil {
		o.fail("nicSelector", "missing: select the policy's cards")
	} else if err := parseNICSelector(o.source.at("nicSelector"), nic, vfs, &s); err != nil {
		o.errs = append(o.errs, err)
	}
	p.Pool.ResourceName = prefix + "/" + name
	p.Pool.Selectors = []Selector{s}
	return p, o.end(remedyPolicy)
}

// remedyPolicy is what to do about a policy with a field that nadra does not know.
const remedyPolicy = "remove it, or use --pool-config with the operator's ConfigMap"

// kind selects the functions' driver and link type. The link type is unknown while user
// space drives a function.
func (o *object) kind(s *Selector, deviceType, linkType string) {
	types := map[string]string{"": "", "eth": inventory.LinkEther, "ib": inventory.LinkInfiniband}
	link, ok := types[strings.ToLower(linkType)]
	if !ok {
		o.fail("linkType", "%q: it must be eth or ib", linkType)
	}
	switch deviceType {
	case inventory.DriverVFIO:
		// Functions are not part of the pool before the operator has bound them.
		s.Drivers = []string{inventory.DriverVFIO}
	case "", "netdevice":
		if link != "" {
			s.LinkTypes = []string{link}
		}
	default:
		o.fail("deviceType", "%q: it must be netdevice or vfio-pci", deviceType)
	}
}

// parseNICSelector parses a policy's nicSelector into s.
func parseNICSelector(source Source, raw []byte, vfs int, s *Selector) error {
	o, err := newObject(source, raw)
	if err != nil {
		return err
	}
	var vendor, device, filter string
	o.get("vendor", &vendor)
	o.get("deviceID", &device)
	o.get("rootDevices", &s.RootDevices)
	o.get("pfNames", &s.PFNames)
	o.get("netFilter", &filter)
	if filter != "" {
		o.fail("netFilter", "%q: nadra cannot select a card by the cloud's network: "+
			"select by vendor, deviceID, rootDevices or pfNames, or use --pool-config with the operator's ConfigMap", filter)
	}
	o.checkRanges("pfNames", s.PFNames)
	o.checkRanges("rootDevices", s.RootDevices)
	s.AltNames = true // the operator resolves them
	if vendor != "" {
		s.Vendors = []string{vendor}
	}
	s.NoPF = vfs > 0
	switch {
	case device != "" && vfs > 0: // the PF's device number
		s.PFDevices = []string{device}
	case device != "":
		s.Devices = []string{device}
	}
	return o.end(remedyPolicy)
}

// FromPolicies returns the pools of a node with these labels. It merges policies for the
// same resource into one pool with the functions that any of them selects.
func FromPolicies(policies []Policy, node map[string]string) []Pool {
	policies = slices.Clone(policies)
	slices.SortFunc(policies, func(a, b Policy) int {
		return cmp.Or(-cmp.Compare(a.Priority, b.Priority), cmp.Compare(a.Name, b.Name))
	})
	var out []Pool
	places := map[string]int{}
	for _, p := range policies {
		if !selected(p.NodeSelector, node) {
			continue
		}
		place, ok := places[p.Pool.ResourceName]
		if !ok {
			places[p.Pool.ResourceName] = len(out)
			out = append(out, p.Pool)
			continue
		}
		merged := &out[place]
		merged.Selectors = slices.Concat(merged.Selectors, p.Pool.Selectors)
		merged.ExcludeTopology = p.Pool.ExcludeTopology
	}
	return out
}

// selected reports whether the labels match a policy's node selector.
func selected(selector, labels map[string]string) bool {
	for key, value := range selector {
		if got, ok := labels[key]; !ok || got != value {
			return false
		}
	}
	return true
}
